// sum_squares.yaml, segment 0: reduction, variant vec8_int32_split528
// segment fids to original fids: {0: 0, 3: 3}
// schedule: threads=256 parts=[(block_x=1 ahead=3 group=(reductions=[2] kept=[] partials=528 results=1 across=[]
//   scaled=[] outer=[] depth=[] is_last=True))]
// launch: segment 0, vec8_int32_split528 2 of 2 on sm_90: grid 1, 1, 1; block 256, 1, 1; overlaps the one before; given
//   y, slot 0 of 2112 bytes; if ((M*N) % 8) == 0, aligned(x, 16), M*N < 2146402304
// launch: segment 0, shifted_vec8_int32_split528 2 of 2 on sm_90: grid 1, 1, 1; block 256, 1, 1; overlaps the one
//   before; given y, slot 0 of 2112 bytes; if aligned(x, 16), M*N < 2143158272
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreads = 256;

FUSEBUILD_KERNEL(kThreads, 1)
reduction_finish_a57b9c3c7643d202(
    float* __restrict__ T3,  // y: float[]
    const float* P3) {  // partial results of y
  constexpr int64_t parts = 528;  // blocks that left partial results
  constexpr int kBlockX = 1;  // results per block
  constexpr int kBlockY = kThreads / kBlockX;  // threads per result
  constexpr int kAhead = 3;  // partial results that a thread loads before it combines the first
  const int64_t results = 1;
  const int64_t splits = parts;  // partial results of each, combined in a fixed order
  const int x = fb::thread_x() % kBlockX, y = fb::thread_x() / kBlockX;
  const Index kept = Index(fb::block_x()) * kBlockX + x;
  const int64_t stride = kBlockY * results;  // from one partial result of a thread to its next
  fb::wait_for_previous_kernel();  // it may still be writing partial results

  float a3 = fb::Sum::identity<float>();
  if (kept < results) {
    for (int64_t first = y; first < splits; first += kAhead * kBlockY) {
      const int64_t left = (splits - first + kBlockY - 1) / kBlockY;
      const int count = left < kAhead ? int(left) : kAhead;
      const int64_t start = first * results + kept;
      float p3[kAhead];
      FUSEBUILD_UNROLL
      for (int u = 0; u < kAhead; ++u) {
        const int64_t place = start + fb::smaller(u, count - 1) * stride;
        p3[u] = P3[place];
      }
      FUSEBUILD_UNROLL
      for (int u = 0; u < kAhead; ++u) {
        const bool is_there = u < count;
        a3 = fb::Sum::combine(a3, is_there ? p3[u] : fb::Sum::identity<float>());
      }
    }
  }
  fb::reduce_columns_at<kBlockX, kBlockY>(x, y, fb::accumulator<fb::Sum>(a3));
  if (y != 0 || kept >= results) return;
  const float t3 = a3;  // y, sum_squares.yaml:7
  T3[0] = t3;
}

FUSEBUILD_ENTRY(reduction_finish_a57b9c3c7643d202)
