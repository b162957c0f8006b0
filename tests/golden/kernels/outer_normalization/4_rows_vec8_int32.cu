// outer_normalization.yaml, segment 4: pointwise, variant rows_vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 3: 5, 4: 11, 5: 14, 6: 16, 13: 10, 17: 17, 18: 24}
// schedule: threads_x=64 threads_y=1 rows=1 unroll=1 min_blocks=9 walked=1
// launch: segment 4, rows_vec8_int32 on sm_90: grid ceil_div(C, 512)*B*A, 1, 1; block 64, 1, 1; overlaps the one
//   before; given x, weight, mean_outer, var_outer, middle_max, t14, t16, batch_norm, ends, middle_softmax, B, C; if
//   A*B*C < 2146435072, (C % 8) == 0, aligned(x, 16), aligned(weight, 16), aligned(mean_outer, 16), aligned(var_outer,
//   16), aligned(middle_max, 16), aligned(t14, 16), aligned(batch_norm, 16), aligned(ends, 16), aligned(middle_softmax,
//   16)
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreadsX = 64, kThreadsY = 1;  // along columns, along rows
constexpr int kVec = 8;  // neighbouring columns per access
constexpr int kRows = 1;  // rows of a thread
constexpr int kUnroll = 1;  // rows in flight per thread and tensor

FUSEBUILD_KERNEL(kThreadsX * kThreadsY, 9)
pointwise_rows_602c16e3a54b3799(
    const float* __restrict__ T0,  // x: float[A, B, C]
    const float* __restrict__ T1,  // weight: float[C]
    const float* T2,  // mean_outer: float[1, 1, C]
    const float* T3,  // var_outer: float[1, 1, C]
    const float* T4,  // middle_max: float[A, 1, C]
    const float* T5,  // t14: float[A, 1, C]
    const float* T6,  // t16: float[1, B, 1]
    float* __restrict__ T13,  // batch_norm: float[A, B, C]
    float* __restrict__ T17,  // ends: float[A, B, C]
    __half* __restrict__ T18,  // middle_softmax: half[A, B, C]
    int64_t n1,  // B
    int64_t n2) {  // C
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const Index rows = n1, columns = n2;
  const Index column_tiles = (columns + kThreadsX * kVec - 1) / (kThreadsX * kVec);
  const Index tile = fb::block_x();
  const Index row_tiles = (rows + kThreadsY * kRows - 1) / (kThreadsY * kRows);
  const Index before = tile / column_tiles / row_tiles;
  const Index first_row = tile / column_tiles % row_tiles * (kThreadsY * kRows);
  const Index i = (tile % column_tiles * kThreadsX + fb::thread_x()) * kVec;
  if (i >= columns) return;

  // What is the same for every row.
  fb::Vec<float, kVec> v10;
  const fb::Vec<float, kVec> v1 = fb::load<kVec>(T1 + i);
  const fb::Vec<float, kVec> v2 = fb::load<kVec>(T2 + i);
  const fb::Vec<float, kVec> v3 = fb::load<kVec>(T3 + i);
  const fb::Vec<float, kVec> v4 = fb::load<kVec>(T4 + before * n2 + i);
  const fb::Vec<float, kVec> v5 = fb::load<kVec>(T5 + before * n2 + i);
  FUSEBUILD_UNROLL
  for (int k = 0; k < kVec; ++k) {
    const float t3 = v3[k];
    const float t9 = t3 + 0.001f;  // outer_normalization.yaml:10
    const float t10 = fb::rsqrt(t9);  // outer_normalization.yaml:10
    v10[k] = t10;
  }

  const Index next_tile = first_row + kThreadsY * kRows;
  const Index end = next_tile < rows ? next_tile : rows;
  for (Index top = first_row + fb::thread_y(); top < end; top += kUnroll * kThreadsY) {
    fb::Packed<float, kVec> p0[kUnroll];
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index row = top + u * kThreadsY;
      if (row >= end) break;
      p0[u] = fb::load_packed<kVec>(T0 + (before * n1 + row) * n2 + i);
    }
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index row = top + u * kThreadsY;
      if (row >= end) break;
      const fb::Vec<float, kVec> v0 = fb::unpack(p0[u]);
      const float t6 = T6[row];  // t16
      fb::Vec<float, kVec> v13;
      fb::Vec<float, kVec> v17;
      fb::Vec<__half, kVec> v18;
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const float t1 = v1[k];
        const float t2 = v2[k];
        const float t4 = v4[k];
        const float t5 = v5[k];
        const float t10 = v10[k];
        const float t0 = v0[k];
        const float t7 = t0 - t2;  // centered, outer_normalization.yaml:8
        const float t11 = t7 * t10;  // outer_normalization.yaml:10
        const float t13 = t11 * t1;  // batch_norm, outer_normalization.yaml:10
        const float t14 = t0 - t4;  // outer_normalization.yaml:12
        const float t15 = fb::exp(t14);  // e, outer_normalization.yaml:12
        const float t16 = t15 / t5;  // middle_softmax, outer_normalization.yaml:13
        const float t17 = t0 - t6;  // ends, outer_normalization.yaml:14
        const __half t18 = fb::cast<__half>(t16);  // outer_normalization.yaml:19
        v13[k] = t13;
        v17[k] = t17;
        v18[k] = t18;
      }
      fb::store(T13 + (before * n1 + row) * n2 + i, v13);
      fb::store(T17 + (before * n1 + row) * n2 + i, v17);
      fb::store(T18 + (before * n1 + row) * n2 + i, v18);
    }
  }
}

FUSEBUILD_ENTRY(pointwise_rows_602c16e3a54b3799)
