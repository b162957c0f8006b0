// column_sum.yaml, segment 0: reduction, variant vec8_int32_split33
// segment fids to original fids: {0: 0, 1: 1}
// schedule: block_x=32 block_y=8 unroll=4 splits=33
// launch: segment 0, vec8_int32_split33 1 of 2 on sm_90: grid ceil_div(N, 256), 33, 1; block 32, 8, 1; given x, slot 0
//   of max(2112*N, 132*N, 20*N) bytes, M, N; if M*N < 2146435072, (N % 8) == 0, aligned(x, 16), aligned(y, 16)
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kBlockX = 32, kBlockY = 8;  // threads side by side, threads that share columns
constexpr int kVec = 8;  // columns per thread
constexpr int kUnroll = 4;  // rows in flight per thread
constexpr int kSplits = 33;  // blocks that take a column's rows in turns; reduction_finish combines them in order

FUSEBUILD_KERNEL(kBlockX * kBlockY, 2)
reduction_outer_344c5df3f5f62d9d(
    const __nv_bfloat16* __restrict__ T0,  // x: bfloat16[M, N]
    float* __restrict__ P1,  // partial results of y
    int64_t n0,  // M
    int64_t n1) {  // N
  fb::let_next_kernel_start();  // it waits for the end of this one
  const int64_t columns = n1;
  const Index depth = n0;
  const Index inner = (Index(fb::block_x()) * kBlockX + fb::thread_x()) * kVec;
  const int split = fb::block_y();
  const Index end = inner < columns ? depth : 0;  // threads beside the columns have no rows
  const Index first = Index(split) * (kUnroll * kBlockY) + fb::thread_y();

  fb::Vec<float, kVec> a1 = fb::splat<kVec>(fb::Sum::identity<float>());
  for (Index top = first; top < end; top += kSplits * kUnroll * kBlockY) {
    fb::Packed<__nv_bfloat16, kVec> c0[kUnroll];
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index r = top + u * kBlockY;
      if (r >= end) break;
      c0[u] = fb::load_packed<kVec>(T0 + r * n1 + inner);
    }
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index r = top + u * kBlockY;
      if (r >= end) break;
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(c0[u]);
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t0 = v0[k];
        a1[k] = fb::Sum::combine(a1[k], fb::cast<float>(t0));
      }
    }
  }
  fb::reduce_columns<kBlockX, kBlockY>(fb::accumulator<fb::Sum>(a1));
  if (fb::thread_y() != 0 || inner >= columns) return;
  FUSEBUILD_UNROLL
  for (int k = 0; k < kVec; ++k) {
    P1[split * n1 + inner + k] = a1[k];
  }
}

FUSEBUILD_ENTRY(reduction_outer_344c5df3f5f62d9d)
