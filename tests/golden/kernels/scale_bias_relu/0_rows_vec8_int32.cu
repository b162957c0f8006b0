// scale_bias_relu.yaml, segment 0: pointwise, variant rows_vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 8: 6}
// schedule: threads_x=64 threads_y=4 rows=8 unroll=4 min_blocks=4 walked=0
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreadsX = 64, kThreadsY = 4;  // along columns, along rows
constexpr int kVec = 8;  // neighbouring columns per access
constexpr int kRows = 8;  // rows of a thread
constexpr int kUnroll = 4;  // rows in flight per thread and tensor

FUSEBUILD_KERNEL(kThreadsX * kThreadsY, 4)
pointwise_rows_57809bd044583ce2(
    const __half* __restrict__ T0,  // x: half[M, N]
    const __half* __restrict__ T1,  // scale: half[N]
    const __half* __restrict__ T2,  // bias: half[N]
    __half* __restrict__ T8,  // y: half[M, N]
    int64_t n0,  // M
    int64_t n1) {  // N
  const Index rows = n0, columns = n1;
  const Index column_tiles = (columns + kThreadsX * kVec - 1) / (kThreadsX * kVec);
  const Index tile = fb::block_x();
  const Index first_row = tile / column_tiles * (kThreadsY * kRows);
  const Index i = (tile % column_tiles * kThreadsX + fb::thread_x()) * kVec;
  if (i >= columns) return;

  // What is the same for every row.
  const fb::Vec<__half, kVec> v1 = fb::load<kVec>(T1 + i);
  const fb::Vec<__half, kVec> v2 = fb::load<kVec>(T2 + i);

  const Index next_tile = first_row + kThreadsY * kRows;
  const Index end = next_tile < rows ? next_tile : rows;
  for (Index top = first_row + fb::thread_y(); top < end; top += kUnroll * kThreadsY) {
    fb::Packed<__half, kVec> p0[kUnroll];
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index row = top + u * kThreadsY;
      if (row >= end) break;
      p0[u] = fb::load_packed<kVec>(T0 + row * n1 + i);
    }
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index row = top + u * kThreadsY;
      if (row >= end) break;
      const fb::Vec<__half, kVec> v0 = fb::unpack(p0[u]);
      fb::Vec<__half, kVec> v8;
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __half t1 = v1[k];
        const __half t2 = v2[k];
        const __half t0 = v0[k];
        const float t4 = fb::cast<float>(t0) * fb::cast<float>(t1);  // scale_bias_relu.yaml:8
        const float t6 = t4 + fb::cast<float>(t2);  // scale_bias_relu.yaml:8
        const float t7 = fb::relu(t6);  // y, scale_bias_relu.yaml:8
        const __half t8 = fb::cast<__half>(t7);  // scale_bias_relu.yaml:10
        v8[k] = t8;
      }
      fb::store(T8 + row * n1 + i, v8);
    }
  }
}

FUSEBUILD_ENTRY(pointwise_rows_57809bd044583ce2)
