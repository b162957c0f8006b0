// sum_squares.yaml, segment 0: reduction, variant vec8_int32_split528
// segment fids to original fids: {0: 0, 3: 3}
// schedule: threads.per_row=256 threads.rows=1 splits=528
// launch: segment 0, vec8_int32_split528 1 of 2 on sm_90: grid 1, 528, 1; block 256, 1, 1; given x, slot 0 of 2112
//   bytes, M*N; if ((M*N) % 8) == 0, aligned(x, 16), M*N < 2146402304
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreadsPerRow = 256;
constexpr int kRowsPerBlock = 1;
constexpr int kVec = 8;  // neighbouring elements per access
constexpr int kSplits = 528;  // blocks that take a row's vectors in turns; reduction_finish combines them in order

FUSEBUILD_KERNEL(kThreadsPerRow * kRowsPerBlock, 2)
reduction_inner_bfeac651426ee6e5(
    const __nv_bfloat16* __restrict__ T0,  // x: bfloat16[M, N]
    float* __restrict__ P3,  // partial results of y
    int64_t n0) {  // M*N
  fb::let_next_kernel_start();  // it waits for the end of this one
  const Index columns = n0;
  const int lane = fb::thread_x() % kThreadsPerRow;
  const int split = fb::block_y();
  const __nv_bfloat16* r0 = T0;

  fb::LongSum w3;
  FUSEBUILD_UNROLL_BY(4)
  for (Index col = (Index(split) * kThreadsPerRow + lane) * kVec; col < columns;
      col += kSplits * kThreadsPerRow * kVec) {
    const fb::Vec<__nv_bfloat16, kVec> v0 = fb::load<kVec>(r0 + col);
    fb::Vec<float, kVec> e3;
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const __nv_bfloat16 t0 = v0[k];
      const float t1 = fb::cast<float>(t0);  // xf, sum_squares.yaml:6
      const float t2 = t1 * t1;  // sum_squares.yaml:7
      e3[k] = t2;
    }
    w3.add(e3);
  }
  float a3 = w3.total();
  fb::reduce_row<kThreadsPerRow, kRowsPerBlock>(fb::accumulator<fb::Sum>(a3));
  if (lane != 0) return;

  P3[split] = a3;
}

FUSEBUILD_ENTRY(reduction_inner_bfeac651426ee6e5)
