// adaln_backward.yaml, segment 0: inner_outer_persistent, variant registers_vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 59: 57, 60: 58, 61: 59, 62: 60, 63: 61}
// schedule: block_x=8 block_y=32 splits=392 reductions=[25, 27] kept=[2] across=[]
#include <fusebuild/kernel.cuh>

using Index = int64_t;
constexpr int kBlockX = 8;  // results per block
constexpr int kBlockY = 32;  // threads per result
constexpr int kSplits = 392;  // partial results of each, combined in a fixed order

FUSEBUILD_KERNEL(kBlockX * kBlockY, 2)
reduction_finish_71eb9213fd55d0d6(
    __nv_bfloat16* __restrict__ T61,  // grad_bias: bfloat16[D]
    __nv_bfloat16* __restrict__ T62,  // grad_weight: bfloat16[D]
    const float* __restrict__ P33,  // partial results of grad_bias
    const float* __restrict__ P35,  // partial results of grad_weight
    int64_t n2) {  // D
  const int64_t results = n2;
  const Index kept = Index(fb::block_x()) * kBlockX + fb::thread_x();

  float a33 = fb::Sum::identity<float>();
  float a35 = fb::Sum::identity<float>();
  if (kept < results) {
    for (int split = fb::thread_y(); split < kSplits; split += kBlockY) {
      a33 = fb::Sum::combine(a33, P33[split * n2 + kept]);
      a35 = fb::Sum::combine(a35, P35[split * n2 + kept]);
    }
  }
  fb::reduce_columns<kBlockX, kBlockY>(fb::accumulator<fb::Sum>(a33), fb::accumulator<fb::Sum>(a35));
  if (fb::thread_y() != 0 || kept >= results) return;

  const float t33 = a33;  // grad_bias, adaln_backward.yaml:33
  const float t35 = a35;  // grad_weight, adaln_backward.yaml:34
  const __nv_bfloat16 t61 = fb::cast<__nv_bfloat16>(t33);  // adaln_backward.yaml:49
  const __nv_bfloat16 t62 = fb::cast<__nv_bfloat16>(t35);  // adaln_backward.yaml:50
  T61[kept] = t61;
  T62[kept] = t62;
}

FUSEBUILD_ENTRY(reduction_finish_71eb9213fd55d0d6)
