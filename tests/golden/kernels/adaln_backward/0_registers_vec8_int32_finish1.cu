// adaln_backward.yaml, segment 0: inner_outer_persistent, variant registers_vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 59: 57, 60: 58, 61: 59, 62: 60, 63: 61}
// schedule: block_x=32 block_y=8 splits=7 reductions=[13, 19] kept=[0, 2] across=[]
#include <fusebuild/kernel.cuh>

using Index = int64_t;
constexpr int kBlockX = 32;  // results per block
constexpr int kBlockY = 8;  // threads per result
constexpr int kSplits = 7;  // partial results of each, combined in a fixed order

FUSEBUILD_KERNEL(kBlockX * kBlockY, 2)
reduction_finish_f84fe9b00c03b83a(
    __nv_bfloat16* __restrict__ T59,  // grad_shift: bfloat16[B, D]
    __nv_bfloat16* __restrict__ T60,  // grad_scale: bfloat16[B, D]
    const float* __restrict__ P21,  // partial results of t21
    const float* __restrict__ P27,  // partial results of t27
    int64_t n0,  // B
    int64_t n2) {  // D
  const int64_t results = n0 * n2;
  const Index kept = Index(fb::block_x()) * kBlockX + fb::thread_x();

  float a21 = fb::Sum::identity<float>();
  float a27 = fb::Sum::identity<float>();
  if (kept < results) {
    for (int split = fb::thread_y(); split < kSplits; split += kBlockY) {
      a21 = fb::Sum::combine(a21, P21[split * n0 * n2 + kept]);
      a27 = fb::Sum::combine(a27, P27[split * n0 * n2 + kept]);
    }
  }
  fb::reduce_columns<kBlockX, kBlockY>(fb::accumulator<fb::Sum>(a21), fb::accumulator<fb::Sum>(a27));
  if (fb::thread_y() != 0 || kept >= results) return;

  const float t21 = a21;  // adaln_backward.yaml:25
  const float t27 = a27;  // adaln_backward.yaml:27
  const __nv_bfloat16 t22 = fb::cast<__nv_bfloat16>(t21);  // adaln_backward.yaml:25
  const float t24 = fb::cast<float>(t22);  // adaln_backward.yaml:26
  const __nv_bfloat16 t28 = fb::cast<__nv_bfloat16>(t27);  // grad_scale_sum, adaln_backward.yaml:27
  const float t30 = fb::cast<float>(t28);  // adaln_backward.yaml:29
  const __nv_bfloat16 t59 = fb::cast<__nv_bfloat16>(t24);  // adaln_backward.yaml:47
  const __nv_bfloat16 t60 = fb::cast<__nv_bfloat16>(t30);  // adaln_backward.yaml:48
  T59[kept] = t59;
  T60[kept] = t60;
}

FUSEBUILD_ENTRY(reduction_finish_f84fe9b00c03b83a)
