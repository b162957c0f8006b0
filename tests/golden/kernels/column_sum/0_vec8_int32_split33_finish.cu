// column_sum.yaml, segment 0: reduction, variant vec8_int32_split33
// segment fids to original fids: {0: 0, 1: 1}
// schedule: threads=256 parts=[(block_x=16 ahead=3 group=(reductions=[0] kept=[1] partials=33 results=4096 across=[]
//   scaled=[] outer=[] depth=[] is_last=True))]
// launch: segment 0, vec8_int32_split33 2 of 2 on sm_90: grid ceil_div(N, 16), 1, 1; block 256, 1, 1; overlaps the one
//   before; given y, slot 0 of max(2112*N, 132*N, 20*N) bytes, N; if M*N < 2146435072, (N % 8) == 0, aligned(x, 16),
//   aligned(y, 16)
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreads = 256;

FUSEBUILD_KERNEL(kThreads, 1)
reduction_finish_b9b2b2eb5758274e(
    float* __restrict__ T1,  // y: float[N]
    const float* P1,  // partial results of y
    int64_t n1) {  // N
  constexpr int64_t parts = 33;  // blocks that left partial results
  constexpr int kBlockX = 16;  // results per block
  constexpr int kBlockY = kThreads / kBlockX;  // threads per result
  constexpr int kAhead = 3;  // partial results that a thread loads before it combines the first
  const int64_t results = n1;
  const int64_t splits = parts;  // partial results of each, combined in a fixed order
  const int x = fb::thread_x() % kBlockX, y = fb::thread_x() / kBlockX;
  const Index kept = Index(fb::block_x()) * kBlockX + x;
  const int64_t stride = kBlockY * results;  // from one partial result of a thread to its next
  fb::wait_for_previous_kernel();  // it may still be writing partial results

  float a1 = fb::Sum::identity<float>();
  if (kept < results) {
    for (int64_t first = y; first < splits; first += kAhead * kBlockY) {
      const int64_t left = (splits - first + kBlockY - 1) / kBlockY;
      const int count = left < kAhead ? int(left) : kAhead;
      const int64_t start = first * results + kept;
      float p1[kAhead];
      FUSEBUILD_UNROLL
      for (int u = 0; u < kAhead; ++u) {
        const int64_t place = start + fb::smaller(u, count - 1) * stride;
        p1[u] = P1[place];
      }
      FUSEBUILD_UNROLL
      for (int u = 0; u < kAhead; ++u) {
        const bool is_there = u < count;
        a1 = fb::Sum::combine(a1, is_there ? p1[u] : fb::Sum::identity<float>());
      }
    }
  }
  fb::reduce_columns_at<kBlockX, kBlockY>(x, y, fb::accumulator<fb::Sum>(a1));
  if (y != 0 || kept >= results) return;
  const float t1 = a1;  // y, column_sum.yaml:8
  T1[kept] = t1;
}

FUSEBUILD_ENTRY(reduction_finish_b9b2b2eb5758274e)
