// sum_squares.yaml, segment 0: reduction, variant shifted_vec8_int32_split528
// segment fids to original fids: {0: 0, 3: 3}
// schedule: threads.per_row=256 threads.rows=1 splits=528
// launch: segment 0, shifted_vec8_int32_split528 1 of 2 on sm_90: grid 1, 528, 1; block 256, 1, 1; given x, slot 0 of
//   2112 bytes, M*N; if aligned(x, 16), M*N < 2143158272
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreadsPerRow = 256;
constexpr int kRowsPerBlock = 1;
constexpr int kVec = 8;  // neighbouring elements per access
constexpr int kUnroll = 4;  // accesses in flight per thread and tensor
constexpr int kSplits = 528;  // blocks that take a row's vectors in turns; reduction_finish combines them in order

FUSEBUILD_KERNEL(kThreadsPerRow * kRowsPerBlock, 2)
reduction_inner_1c3783c459441a20(
    const __nv_bfloat16* __restrict__ T0,  // x: bfloat16[M, N]
    float* __restrict__ P3,  // partial results of y
    int64_t n0) {  // M*N
  fb::let_next_kernel_start();  // it waits for the end of this one
  const Index columns = n0;
  const int lane = fb::thread_x() % kThreadsPerRow;
  const int split = fb::block_y();
  const __nv_bfloat16* r0 = T0;
  constexpr Index shift = 0;
  const Index readable = fb::readable_of<kVec>(columns, columns);

  fb::LongSum w3;
  for (Index first = (Index(split) * (kUnroll * kThreadsPerRow) + lane) * kVec - shift; first < columns;
      first += kSplits * kUnroll * kThreadsPerRow * kVec) {
    fb::Packed<__nv_bfloat16, kVec> p0[kUnroll];
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index col = first + Index(u) * (kThreadsPerRow * kVec);
      if (col >= columns) break;
      p0[u] = fb::load_packed_up_to<kVec>(r0 + col, readable - col);
    }
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index col = first + Index(u) * (kThreadsPerRow * kVec);
      if (col >= columns) break;
      const unsigned inside = fb::inside_of<kVec>(col, columns);  // bit k: column col + k is of this row
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(p0[u]);
      fb::Vec<float, kVec> e3 = fb::splat<kVec>(0.0f);
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t0 = v0[k];
        const float t1 = fb::cast<float>(t0);  // xf, sum_squares.yaml:6
        const float t2 = t1 * t1;  // sum_squares.yaml:7
        if (fb::is_inside(inside, k)) e3[k] = t2;
      }
      w3.add(e3);
    }
  }
  float a3 = w3.total();
  fb::reduce_row<kThreadsPerRow, kRowsPerBlock>(fb::accumulator<fb::Sum>(a3));
  if (lane != 0) return;

  P3[split] = a3;
}

FUSEBUILD_ENTRY(reduction_inner_1c3783c459441a20)
