// welford.yaml, segment 0: reduction, variant vec8_int32
// segment fids to original fids: {0: 0, 3: 6, 6: 9}
// schedule: threads=128 unroll=8 is_split=True in_pieces=False can_cluster=True alone=8
// launch: segment 0, vec8_int32 1 of 2 on sm_90: grid ceil_div(M*max(1, 2*(N*(3*(M*N <= 2048*gpu.multiprocessors) + 1)
//   > 24), 4*(N*(3*(M*N <= 2048*gpu.multiprocessors) + 1) > 64), 8*(N*(3*(M*N <= 2048*gpu.multiprocessors) + 1) >
//   128*((M >= 16384) + 1)), 16*(N*(3*(M*N <= 2048*gpu.multiprocessors) + 1) > 512*((M >= 16384) + 1)), 32*(N*(3*(M*N
//   <= 2048*gpu.multiprocessors) + 1) > 1024*((M >= 16384) + 1)), 64*(N*(3*(M*N <= 2048*gpu.multiprocessors) + 1) >
//   2048), 128*(N*(3*(M*N <= 2048*gpu.multiprocessors) + 1) > 4096)), 128*max(1, argument 10)), argument 12, 1; block
//   128, 1, 1; clusters of 7*(M <= 64)*(N > 16384)*(N <= 131072)*(M*N <= 4194304) + 1; overlaps what is before; given
//   x, mean, var, slot 0 of max(4*max(1, min((N > 24576)*ceil_div(N, 8192), max((8*gpu.multiprocessors) // max(1, M),
//   4*(M > 8*gpu.multiprocessors))))*M, 4*max(1, min((N > 3072)*ceil_div(N, 1024), max((8*gpu.multiprocessors) //
//   max(1, M), 4*(M > 8*gpu.multiprocessors))))*M) bytes, slot 1 of max(4*max(1, min((N > 24576)*ceil_div(N, 8192),
//   max((8*gpu.multiprocessors) // max(1, M), 4*(M > 8*gpu.multiprocessors))))*M, 4*max(1, min((N > 3072)*ceil_div(N,
//   1024), max((8*gpu.multiprocessors) // max(1, M), 4*(M > 8*gpu.multiprocessors))))*M) bytes, slot 2 of max(4*max(1,
//   min((N > 24576)*ceil_div(N, 8192), max((8*gpu.multiprocessors) // max(1, M), 4*(M > 8*gpu.multiprocessors))))*M,
//   4*max(1, min((N > 3072)*ceil_div(N, 1024), max((8*gpu.multiprocessors) // max(1, M), 4*(M >
//   8*gpu.multiprocessors))))*M) bytes, M, N, (N*(3*(M*N <= 2048*gpu.multiprocessors) + 1) > 24) + (N*(3*(M*N <=
//   2048*gpu.multiprocessors) + 1) > 64) + (N*(3*(M*N <= 2048*gpu.multiprocessors) + 1) > 128*((M >= 16384) + 1)) +
//   (N*(3*(M*N <= 2048*gpu.multiprocessors) + 1) > 512*((M >= 16384) + 1)) + (N*(3*(M*N <= 2048*gpu.multiprocessors) +
//   1) > 1024*((M >= 16384) + 1)) + (N*(3*(M*N <= 2048*gpu.multiprocessors) + 1) > 2048) + (N*(3*(M*N <=
//   2048*gpu.multiprocessors) + 1) > 4096), (N == 8)*min(8, M // (1024*gpu.multiprocessors)), 7*(M <= 64)*(N >
//   16384)*(N <= 131072)*(M*N <= 4194304) + 1, 8*(M <= 64)*(N > 16384)*(N <= 131072)*(M*N <= 4194304) + max(1, min((N >
//   24576)*ceil_div(N, 8192), max((8*gpu.multiprocessors) // max(1, M), 4*(M > 8*gpu.multiprocessors))))*((M <= 64)*(N
//   > 16384)*(N <= 131072)*(M*N <= 4194304) == 0); if M*N < 2146435072, (N % 8) == 0, aligned(x, 16), N < 1073741824
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreads = 128;
constexpr int kVec = 8;  // neighbouring elements per access
constexpr int kUnroll = 8;  // accesses in flight per thread and tensor

FUSEBUILD_KERNEL(kThreads, 4)
reduction_inner_a1bddd6895fbea6a(
    const __nv_bfloat16* T0,  // x: bfloat16[M, N]
    float* __restrict__ T3,  // mean: float[M]
    float* __restrict__ T6,  // var: float[M]
    float* __restrict__ P3,  // partial results of mean
    float* __restrict__ P4,  // partial results of m2
    float* __restrict__ P5,  // partial results of n
    int64_t n0,  // M
    int64_t n1,  // N
    int64_t row_shift,  // of the threads that share a row
    int64_t rows_alone,  // rows of one vector that a thread has to itself
    int64_t cluster,  // blocks that share a reduction and run together
    int64_t splits) {  // blocks that share a reduction
  fb::let_next_kernel_start();  // it waits for the end of this one
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const int64_t rows = n0;
  const Index columns = n1;
  if (rows_alone > 0) {  // a row is one vector: a thread has rows of its own
    constexpr int lane = 0, split = 0;
    constexpr Index col = 0;
    const int most = kThreads * rows_alone;
    const int64_t begin = int64_t(fb::block_x()) * most, top = begin + fb::thread_x();
    const int left = int(rows - begin < most ? rows - begin : most) - fb::thread_x();
    fb::Packed<__nv_bfloat16, kVec> p0[kUnroll];
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      if (u * kThreads >= left) break;
      const int64_t row = top + u * kThreads;
      const __nv_bfloat16* r0 = T0 + row * n1;
      p0[u] = fb::load_packed<kVec>(r0 + col);
    }
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      if (u * kThreads >= left) break;
      const int64_t row = top + u * kThreads;
      const __nv_bfloat16* r0 = T0 + row * n1;
      fb::BatchMoments<float, Index> w3;
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(p0[u]);
      fb::Vec<float, kVec> e3;
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t0 = v0[k];
        e3[k] = fb::cast<float>(t0);
      }
      w3.add(e3);
      auto a3 = w3.state<fb::MeanAndSquares<float>::State>({0.0f, 0.0f, 0.0f});
      const float t3 = a3.v0;  // mean, welford.yaml:17
      const float t4 = a3.v1;  // m2, welford.yaml:17
      const float t5 = a3.v2;  // n, welford.yaml:17
      const float t6 = t4 / t5;  // var, welford.yaml:18
      T3[row] = t3;
      T6[row] = t6;
    }
    return;
  }
  const int width = 1 << row_shift;  // threads that share a row
  const int lane = fb::thread_x() & (width - 1);
  const int64_t wanted = int64_t(fb::block_x()) * (kThreads >> row_shift) + (fb::thread_x() >> row_shift);
  const bool active = wanted < rows;  // the last block's spare threads repeat a row and store nothing
  const int64_t row = active ? wanted : rows - 1;
  const int split = fb::block_y();  // of the blocks that take a row's vectors in turns
  const __nv_bfloat16* r0 = T0 + row * n1;

  fb::BatchMoments<float, Index> w3;
  const Index step = width * kVec;
  for (Index first = (Index(split) * (kUnroll * width) + lane) * kVec; first < columns;
      first += Index(splits) * kUnroll * step) {
    fb::Packed<__nv_bfloat16, kVec> p0[kUnroll];
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index col = first + u * step;
      if (col >= columns) break;
      p0[u] = fb::load_packed<kVec>(r0 + col);
    }
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index col = first + u * step;
      if (col >= columns) break;
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(p0[u]);
      fb::Vec<float, kVec> e3;
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t0 = v0[k];
        e3[k] = fb::cast<float>(t0);
      }
      w3.add(e3);
    }
  }
  auto a3 = w3.state<fb::MeanAndSquares<float>::State>({0.0f, 0.0f, 0.0f});
  fb::reduce_row_of<kThreads>(width, fb::accumulator<fb::MeanAndSquares<float>>(a3));
  if (cluster == 1) {  // first: what most calls run through lies together
    if (splits > 1) {  // reduction_finish combines what they leave in order
      if (!active || lane != 0) return;
      P3[split * n0 + row] = a3.v0;
      P4[split * n0 + row] = a3.v1;
      P5[split * n0 + row] = a3.v2;
      return;
    }
    const float t3 = a3.v0;  // mean, welford.yaml:17
    const float t4 = a3.v1;  // m2, welford.yaml:17
    const float t5 = a3.v2;  // n, welford.yaml:17
    const float t6 = t4 / t5;  // var, welford.yaml:18
    fb::store_rows_of<kThreads>(row_shift, rows, fb::row_result(T3, t3), fb::row_result(T6, t6));
    return;
  }
  if (!fb::reduce_in_first_block<kThreads, 1>(0, lane, 1, fb::accumulator<fb::MeanAndSquares<float>>(a3))) return;
  const float t3 = a3.v0;  // mean, welford.yaml:17
  const float t4 = a3.v1;  // m2, welford.yaml:17
  const float t5 = a3.v2;  // n, welford.yaml:17
  const float t6 = t4 / t5;  // var, welford.yaml:18
  fb::store_rows_of<kThreads>(row_shift, rows, fb::row_result(T3, t3), fb::row_result(T6, t6));
}

FUSEBUILD_ENTRY(reduction_inner_a1bddd6895fbea6a)
