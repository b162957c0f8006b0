// column_sum.yaml, segment 0: reduction, variant vec8_int32_split33
// segment fids to original fids: {0: 0, 1: 1}
// schedule: block_x=16 block_y=16 ahead=3 splits=33 reductions=[0] kept=[1] across=[] scaled=[] outer=[] depth=[]
//   is_last=True is_followed=False
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kBlockX = 16;  // results per block
constexpr int kBlockY = 16;  // threads per result
constexpr int kSplits = 33;  // partial results of each, combined in a fixed order
constexpr int kAhead = 3;  // partial results that a thread loads before it combines the first

FUSEBUILD_KERNEL(kBlockX * kBlockY, 2)
reduction_finish_fff13c2b1d9ba981(
    float* __restrict__ T1,  // y: float[N]
    const float* P1,  // partial results of y
    int64_t n1) {  // N
  const int64_t results = n1;
  const int64_t splits = kSplits;
  const Index kept = Index(fb::block_x()) * kBlockX + fb::thread_x();
  fb::wait_for_previous_kernel();  // it may still be writing partial results

  float a1 = fb::Sum::identity<float>();
  if (kept < results) {
    for (int64_t first = fb::thread_y(); first < splits; first += kAhead * kBlockY) {
      FUSEBUILD_UNROLL
      for (int u = 0; u < kAhead; ++u) {
        const int64_t split = first + u * kBlockY;
        const float p1 = split < splits ? P1[split * n1 + kept] : fb::Sum::identity<float>();
        a1 = fb::Sum::combine(a1, p1);
      }
    }
  }
  fb::reduce_columns<kBlockX, kBlockY>(fb::accumulator<fb::Sum>(a1));
  if (fb::thread_y() != 0 || kept >= results) return;

  const float t1 = a1;  // y, column_sum.yaml:8
  T1[kept] = t1;
}

FUSEBUILD_ENTRY(reduction_finish_fff13c2b1d9ba981)
