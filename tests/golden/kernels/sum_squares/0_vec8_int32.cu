// sum_squares.yaml, segment 0: reduction, variant vec8_int32
// segment fids to original fids: {0: 0, 3: 3}
// schedule: threads=128 unroll=8 is_split=True in_pieces=False can_cluster=True
// launch: segment 0, vec8_int32 1 of 2 on sm_90: grid ceil_div(max(1, 2*(M*N*(3*(M*N <= 2048*gpu.multiprocessors) + 1)
//   > 24), 4*(M*N*(3*(M*N <= 2048*gpu.multiprocessors) + 1) > 64), 8*(M*N*(3*(M*N <= 2048*gpu.multiprocessors) + 1) >
//   128), 16*(M*N*(3*(M*N <= 2048*gpu.multiprocessors) + 1) > 512), 32*(M*N*(3*(M*N <= 2048*gpu.multiprocessors) + 1) >
//   1024), 64*(M*N*(3*(M*N <= 2048*gpu.multiprocessors) + 1) > 2048), 128*(M*N*(3*(M*N <= 2048*gpu.multiprocessors) +
//   1) > 4096)), 128), argument 7, 1; block 128, 1, 1; clusters of 7*(M*N > 16384)*(M*N <= 131072)*(M*N <= 4194304) +
//   1; overlaps what is before; given x, y, slot 0 of max(4*max(1, min((M*N > 24576)*ceil_div(M*N, 8192),
//   max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors)))), 4*max(1, min((M*N > 3072)*ceil_div(M*N, 1024),
//   max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors))))) bytes, M*N, (M*N*(3*(M*N <=
//   2048*gpu.multiprocessors) + 1) > 24) + (M*N*(3*(M*N <= 2048*gpu.multiprocessors) + 1) > 64) + (M*N*(3*(M*N <=
//   2048*gpu.multiprocessors) + 1) > 128) + (M*N*(3*(M*N <= 2048*gpu.multiprocessors) + 1) > 512) + (M*N*(3*(M*N <=
//   2048*gpu.multiprocessors) + 1) > 1024) + (M*N*(3*(M*N <= 2048*gpu.multiprocessors) + 1) > 2048) + (M*N*(3*(M*N <=
//   2048*gpu.multiprocessors) + 1) > 4096), 7*(M*N > 16384)*(M*N <= 131072)*(M*N <= 4194304) + 1, 8*(M*N > 16384)*(M*N
//   <= 131072)*(M*N <= 4194304) + max(1, min((M*N > 24576)*ceil_div(M*N, 8192), max((8*gpu.multiprocessors) // 1, 4*(1
//   > 8*gpu.multiprocessors))))*((M*N > 16384)*(M*N <= 131072)*(M*N <= 4194304) == 0); if ((M*N) % 8) == 0, aligned(x,
//   16), M*N < 1073741824
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreads = 128;
constexpr int kVec = 8;  // neighbouring elements per access
constexpr int kUnroll = 8;  // accesses in flight per thread and tensor

FUSEBUILD_KERNEL(kThreads, 4)
reduction_inner_88ed0e963c541398(
    const __nv_bfloat16* T0,  // x: bfloat16[M, N]
    float* __restrict__ T3,  // y: float[]
    float* __restrict__ P3,  // partial results of y
    int64_t n0,  // M*N
    int64_t row_shift,  // of the threads that share a row
    int64_t cluster,  // blocks that share a reduction and run together
    int64_t splits) {  // blocks that share a reduction
  fb::let_next_kernel_start();  // it waits for the end of this one
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const int64_t rows = 1;
  const Index columns = n0;
  const int width = 1 << row_shift;  // threads that share a row
  const int lane = fb::thread_x() & (width - 1);
  const int64_t wanted = int64_t(fb::block_x()) * (kThreads >> row_shift) + (fb::thread_x() >> row_shift);
  const bool active = wanted < rows;  // the last block's spare threads repeat a row and store nothing
  const int split = fb::block_y();  // of the blocks that take a row's vectors in turns
  const __nv_bfloat16* r0 = T0;

  fb::LongSum w3;
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
        const float t1 = fb::cast<float>(t0);  // xf, sum_squares.yaml:6
        const float t2 = t1 * t1;  // sum_squares.yaml:7
        e3[k] = t2;
      }
      w3.add(e3);
    }
  }
  float a3 = w3.total();
  fb::reduce_row_of<kThreads>(width, fb::accumulator<fb::Sum>(a3));
  if (cluster == 1) {  // first: what most calls run through lies together
    if (splits > 1) {  // reduction_finish combines what they leave in order
      if (!active || lane != 0) return;
      P3[split] = a3;
      return;
    }
    if (!active || lane != 0) return;

    const float t3 = a3;  // y, sum_squares.yaml:7
    T3[0] = t3;
    return;
  }
  if (!fb::reduce_in_first_block<kThreads, 1>(0, lane, 1, fb::accumulator<fb::Sum>(a3))) return;
  if (!active || lane != 0) return;

  const float t3 = a3;  // y, sum_squares.yaml:7
  T3[0] = t3;
}

FUSEBUILD_ENTRY(reduction_inner_88ed0e963c541398)
