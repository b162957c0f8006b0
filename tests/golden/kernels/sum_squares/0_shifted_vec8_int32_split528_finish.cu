// sum_squares.yaml, segment 0: reduction, variant vec8_int32_split528
// segment fids to original fids: {0: 0, 3: 3}
// schedule: block_x=1 block_y=256 ahead=3 splits=528 reductions=[2] kept=[] across=[] scaled=[] outer=[] depth=[]
//   is_last=True is_followed=False
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kBlockX = 1;  // results per block
constexpr int kBlockY = 256;  // threads per result
constexpr int kSplits = 528;  // partial results of each, combined in a fixed order
constexpr int kAhead = 3;  // partial results that a thread loads before it combines the first

FUSEBUILD_KERNEL(kBlockX * kBlockY, 2)
reduction_finish_6141e34b009d6625(
    float* __restrict__ T3,  // y: float[]
    const float* P3) {  // partial results of y
  const int64_t results = 1;
  const int64_t splits = kSplits;
  const Index kept = Index(fb::block_x()) * kBlockX + fb::thread_x();
  fb::wait_for_previous_kernel();  // it may still be writing partial results

  float a3 = fb::Sum::identity<float>();
  if (kept < results) {
    for (int64_t first = fb::thread_y(); first < splits; first += kAhead * kBlockY) {
      FUSEBUILD_UNROLL
      for (int u = 0; u < kAhead; ++u) {
        const int64_t split = first + u * kBlockY;
        const float p3 = split < splits ? P3[split + kept] : fb::Sum::identity<float>();
        a3 = fb::Sum::combine(a3, p3);
      }
    }
  }
  fb::reduce_columns<kBlockX, kBlockY>(fb::accumulator<fb::Sum>(a3));
  if (fb::thread_y() != 0 || kept >= results) return;

  const float t3 = a3;  // y, sum_squares.yaml:7
  T3[0] = t3;
}

FUSEBUILD_ENTRY(reduction_finish_6141e34b009d6625)
