// batchnorm_train_nchw.yaml, segment 0: reduction, variant vec8_int32_split3
// segment fids to original fids: {0: 0, 1: 3, 2: 4, 4: 8, 12: 13, 16: 23, 22: 29}
// schedule: threads.per_row=256 threads.rows=1 splits=3
// launch: segment 0, vec8_int32_split3 1 of 2 on sm_90: grid C, 3, 1; block 256, 1, 1; given x, slot 0 of 24*C bytes,
//   slot 1 of 12*C bytes, slot 2 of 12*C bytes, N, C, HW; if N*C*HW < 2146435072, (HW % 8) == 0, aligned(x, 16)
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreadsPerRow = 256;
constexpr int kRowsPerBlock = 1;
constexpr int kVec = 8;  // neighbouring elements per access
constexpr int kSplits = 3;  // blocks that take a row's vectors in turns; reduction_finish combines them in order

FUSEBUILD_KERNEL(kThreadsPerRow * kRowsPerBlock, 2)
reduction_inner_0a60e4c064defa62(
    const __nv_bfloat16* T0,  // x: bfloat16[N, C, HW]
    double* __restrict__ P4,  // partial results of mean
    float* __restrict__ P5,  // partial results of m2
    float* __restrict__ P6,  // partial results of count
    int64_t n0,  // N
    int64_t n1,  // C
    int64_t n2) {  // HW
  fb::let_next_kernel_start();  // it waits for the end of this one
  const Index columns = n0 * n2;
  const int lane = fb::thread_x() % kThreadsPerRow;
  const int64_t row = fb::block_x();
  const int split = fb::block_y();
  const __nv_bfloat16* r0 = T0 + row * n2;

  fb::Moments<float> w4;
  const Index first = (Index(split) * kThreadsPerRow + lane) * kVec;
  Index col = first;
  // After one vector, four, sixteen and so on, running sums are recentered at the mean of what was read.
  for (int64_t stop = int64_t(kSplits) * kThreadsPerRow * kVec; col < columns; stop *= 4) {
    const Index until = stop < columns ? stop : columns;
    FUSEBUILD_UNROLL_BY(4)
    for (; col < until; col += kSplits * kThreadsPerRow * kVec) {
      const bool is_first = col == first;
      const Index i2 = col % Index(n2);
      const Index i0 = col / Index(n2);
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::load<kVec>(r0 + i0 * n1 * n2 + i2);
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t0 = v0[k];
        const float t3 = fb::cast<float>(t0);  // xf, batchnorm_train_nchw.yaml:15
        w4.add(t3, is_first && k == 0);
      }
    }
    w4.recenter((col - first) / (kSplits * kThreadsPerRow));
  }
  const int64_t count = (col - first) / (kSplits * kThreadsPerRow);
  fb::Welford<float>::State a4 = w4.state(count);
  fb::reduce_row<kThreadsPerRow, kRowsPerBlock>(fb::accumulator<fb::Welford<float>>(a4));
  if (lane != 0) return;

  P4[split * n1 + row] = a4.v0;
  P5[split * n1 + row] = a4.v1;
  P6[split * n1 + row] = a4.v2;
}

FUSEBUILD_ENTRY(reduction_inner_0a60e4c064defa62)
