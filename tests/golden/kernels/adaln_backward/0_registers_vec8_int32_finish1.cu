// adaln_backward.yaml, segment 0: inner_outer_persistent, variant registers_vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 20: 20, 28: 26, 52: 49, 53: 50, 54: 51}
// schedule: block_x=128 block_y=2 ahead=6 splits=528 reductions=[10, 11] kept=[0, 2] across=[] scaled=[] outer=[0]
//   depth=[1] is_last=False is_followed=True
#include <fusebuild/kernel.cuh>

using Index = int64_t;
constexpr int kBlockX = 128;  // results per block
constexpr int kBlockY = 2;  // threads per result
constexpr int kBlocks = 528;  // blocks that left partial results, combined in a fixed order
constexpr int kAhead = 6;  // partial results that a thread loads before it combines the first

FUSEBUILD_KERNEL(kBlockX * kBlockY, 2)
reduction_finish_6af7e1629788874b(
    const __nv_bfloat16* __restrict__ T0,  // weight: bfloat16[D]
    const __nv_bfloat16* __restrict__ T1,  // bias: bfloat16[D]
    __nv_bfloat16* __restrict__ T20,  // grad_shift: bfloat16[B, D]
    __nv_bfloat16* __restrict__ T28,  // grad_scale: bfloat16[B, D]
    const float* P18,  // partial results of grad_sum
    const float* P19,  // partial results of normed_sum
    int64_t n0,  // B
    int64_t n1,  // S
    int64_t n2) {  // D
  const int64_t results = n0 * n2;
  const int64_t splits = fb::partition(n0, n1, kBlocks).most_parts();
  const Index kept = Index(fb::block_x()) * kBlockX + fb::thread_x();
  fb::wait_for_previous_kernel();  // it may still be writing partial results
  fb::let_next_kernel_start();
  const bool writes = fb::thread_y() == 0 && kept < results;
  const Index i2 = kept % Index(n2);
  const __nv_bfloat16 t0 = writes ? T0[i2] : __nv_bfloat16{};  // weight
  const __nv_bfloat16 t1 = writes ? T1[i2] : __nv_bfloat16{};  // bias

  float a18 = fb::Sum::identity<float>();
  float a19 = fb::Sum::identity<float>();
  if (kept < results) {
    for (int64_t first = fb::thread_y(); first < splits; first += kAhead * kBlockY) {
      FUSEBUILD_UNROLL
      for (int u = 0; u < kAhead; ++u) {
        const int64_t split = first + u * kBlockY;
        const float p18 = split < splits ? P18[split * n0 * n2 + kept] : fb::Sum::identity<float>();
        const float p19 = split < splits ? P19[split * n0 * n2 + kept] : fb::Sum::identity<float>();
        a18 = fb::Sum::combine(a18, p18);
        a19 = fb::Sum::combine(a19, p19);
      }
    }
  }
  fb::reduce_columns<kBlockX, kBlockY>(fb::accumulator<fb::Sum>(a18), fb::accumulator<fb::Sum>(a19));
  if (fb::thread_y() != 0 || kept >= results) return;

  const float t18 = a18;  // grad_sum, adaln_backward.yaml:24
  const float t19 = a19;  // normed_sum, adaln_backward.yaml:25
  const __nv_bfloat16 t20 = fb::cast<__nv_bfloat16>(t18);  // grad_shift, adaln_backward.yaml:26
  const float t21 = fb::cast<float>(t0);  // adaln_backward.yaml:27
  const float t23 = t21 * t19;  // adaln_backward.yaml:27
  const float t24 = fb::cast<float>(t1);  // adaln_backward.yaml:27
  const float t26 = t24 * t18;  // adaln_backward.yaml:27
  const float t27 = t23 + t26;  // adaln_backward.yaml:27
  const __nv_bfloat16 t28 = fb::cast<__nv_bfloat16>(t27);  // grad_scale, adaln_backward.yaml:27
  T20[kept] = t20;
  T28[kept] = t28;
}

FUSEBUILD_ENTRY(reduction_finish_6af7e1629788874b)
