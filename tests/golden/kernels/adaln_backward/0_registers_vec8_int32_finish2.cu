// adaln_backward.yaml, segment 0: inner_outer_persistent, variant registers_vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 20: 20, 28: 26, 52: 49, 53: 50, 54: 51}
// schedule: block_x=8 block_y=32 ahead=8 splits=528 reductions=[22, 24] kept=[2] across=[0] scaled=[(22, 18, 15), (24,
//   19, 15)] outer=[0] depth=[1] is_last=False is_followed=False
#include <fusebuild/kernel.cuh>

using Index = int64_t;
constexpr int kBlockX = 8;  // results per block
constexpr int kBlockY = 32;  // threads per result
constexpr int kBlocks = 528;  // blocks that left partial results, combined in a fixed order
constexpr int kAhead = 8;  // partial results that a thread loads before it combines the first

FUSEBUILD_KERNEL(kBlockX * kBlockY, 2)
reduction_finish_8466153e99ffa50b(
    const __nv_bfloat16* __restrict__ T2,  // scale: bfloat16[B, 1, D]
    __nv_bfloat16* __restrict__ T52,  // grad_bias: bfloat16[D]
    __nv_bfloat16* __restrict__ T53,  // grad_weight: bfloat16[D]
    const float* P18,  // partial results of grad_sum
    const float* P19,  // partial results of normed_sum
    int64_t n0,  // B
    int64_t n1,  // S
    int64_t n2) {  // D
  const int64_t results = n2;
  const int64_t splits = fb::partition(n0, n1, kBlocks).most_parts() * n0;
  const Index kept = Index(fb::block_x()) * kBlockX + fb::thread_x();
  fb::wait_for_previous_kernel();  // it may still be writing partial results

  float a30 = fb::Sum::identity<float>();
  float a32 = fb::Sum::identity<float>();
  if (kept < results && n0 > 0) {
    int64_t outer = fb::thread_y() % n0;  // of the partial result number split
    const int64_t step = kBlockY % n0;
    for (int64_t first = fb::thread_y(); first < splits; first += kAhead * kBlockY) {
      FUSEBUILD_UNROLL
      for (int u = 0; u < kAhead; ++u) {
        const int64_t split = first + u * kBlockY;
        const float p30 = split < splits ? P18[split * n2 + kept] : float(0);
        const float p32 = split < splits ? P19[split * n2 + kept] : float(0);
        const __nv_bfloat16 t2 = T2[outer * n2 + kept];  // scale
        const float t11 = fb::cast<float>(t2);  // adaln_backward.yaml:19
        const float t13 = 1.0f + t11;  // adaln_backward.yaml:19
        const __nv_bfloat16 t14 = fb::cast<__nv_bfloat16>(t13);  // adaln_backward.yaml:19
        const float t15 = fb::cast<float>(t14);  // one_plus_scale, adaln_backward.yaml:19
        a30 = fb::Sum::combine(a30, split < splits ? t15 * p30 : float(0));
        a32 = fb::Sum::combine(a32, split < splits ? t15 * p32 : float(0));
        outer += outer + step < n0 ? step : step - n0;
      }
    }
  }
  fb::reduce_columns<kBlockX, kBlockY>(fb::accumulator<fb::Sum>(a30), fb::accumulator<fb::Sum>(a32));
  if (fb::thread_y() != 0 || kept >= results) return;

  const float t30 = a30;  // grad_bias, adaln_backward.yaml:30
  const float t32 = a32;  // grad_weight, adaln_backward.yaml:31
  const __nv_bfloat16 t52 = fb::cast<__nv_bfloat16>(t30);  // adaln_backward.yaml:43
  const __nv_bfloat16 t53 = fb::cast<__nv_bfloat16>(t32);  // adaln_backward.yaml:44
  T52[kept] = t52;
  T53[kept] = t53;
}

FUSEBUILD_ENTRY(reduction_finish_8466153e99ffa50b)
