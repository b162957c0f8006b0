// sum_squares.yaml, segment 0: reduction, variant vec8_int32_split528
// segment fids to original fids: {0: 0, 3: 3}
// schedule: block_x=1 block_y=256 splits=528 reductions=[2] kept=[] across=[] scaled=[] outer=[] depth=[] is_last=True
//   is_followed=False
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kBlockX = 1;  // results per block
constexpr int kBlockY = 256;  // threads per result
constexpr int kSplits = 528;  // partial results of each, combined in a fixed order

FUSEBUILD_KERNEL(kBlockX * kBlockY, 2)
reduction_finish_b5d9aa6fcd5e0436(
    float* __restrict__ T3,  // y: float[]
    const float* P3) {  // partial results of y
  const int64_t results = 1;
  const Index kept = Index(fb::block_x()) * kBlockX + fb::thread_x();
  fb::wait_for_previous_kernel();  // it may still be writing partial results

  float a3 = fb::Sum::identity<float>();
  if (kept < results) {
    for (int split = fb::thread_y(); split < kSplits; split += kBlockY) {
      a3 = fb::Sum::combine(a3, P3[split + kept]);
    }
  }
  fb::reduce_columns<kBlockX, kBlockY>(fb::accumulator<fb::Sum>(a3));
  if (fb::thread_y() != 0 || kept >= results) return;

  const float t3 = a3;  // y, sum_squares.yaml:7
  T3[0] = t3;
}

FUSEBUILD_ENTRY(reduction_finish_b5d9aa6fcd5e0436)
