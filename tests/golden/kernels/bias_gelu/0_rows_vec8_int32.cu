// bias_gelu.yaml, segment 0: pointwise, variant rows_vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 12: 11}
// schedule: threads_x=128 threads_y=1 rows=8 unroll=1 min_blocks=11 walked=0
// launch: segment 0, rows_vec8_int32 on sm_90: grid ceil_div(N, 1024)*ceil_div(M, 8), 1, 1; block 128, 1, 1; given x,
//   bias, y, M, N; if M*N < 2146435072, (N % 8) == 0, aligned(x, 16), aligned(bias, 16), aligned(y, 16)
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreadsX = 128, kThreadsY = 1;  // along columns, along rows
constexpr int kVec = 8;  // neighbouring columns per access
constexpr int kRows = 8;  // rows of a thread
constexpr int kUnroll = 1;  // rows in flight per thread and tensor

FUSEBUILD_KERNEL(kThreadsX * kThreadsY, 11)
pointwise_rows_e9a8e169336d4a81(
    const __nv_bfloat16* __restrict__ T0,  // x: bfloat16[M, N]
    const __nv_bfloat16* __restrict__ T1,  // bias: bfloat16[N]
    __nv_bfloat16* __restrict__ T12,  // y: bfloat16[M, N]
    int64_t n0,  // M
    int64_t n1) {  // N
  const Index rows = n0, columns = n1;
  const Index column_tiles = (columns + kThreadsX * kVec - 1) / (kThreadsX * kVec);
  const Index tile = fb::block_x();
  const Index first_row = tile / column_tiles * (kThreadsY * kRows);
  const Index i = (tile % column_tiles * kThreadsX + fb::thread_x()) * kVec;
  if (i >= columns) return;

  // What is the same for every row.
  const fb::Vec<__nv_bfloat16, kVec> v1 = fb::load<kVec>(T1 + i);

  const Index next_tile = first_row + kThreadsY * kRows;
  const Index end = next_tile < rows ? next_tile : rows;
  for (Index top = first_row + fb::thread_y(); top < end; top += kUnroll * kThreadsY) {
    fb::Packed<__nv_bfloat16, kVec> p0[kUnroll];
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
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(p0[u]);
      fb::Vec<__nv_bfloat16, kVec> v12;
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t1 = v1[k];
        const __nv_bfloat16 t0 = v0[k];
        const float t3 = fb::cast<float>(t0) + fb::cast<float>(t1);  // biased, bias_gelu.yaml:7
        const float t5 = 0.5f * t3;  // bias_gelu.yaml:9
        const float t7 = t3 * 0.7071067811865476f;  // bias_gelu.yaml:9
        const float t8 = fb::erf(t7);  // bias_gelu.yaml:9
        const float t10 = 1.0f + t8;  // bias_gelu.yaml:9
        const float t11 = t5 * t10;  // y, bias_gelu.yaml:9
        const __nv_bfloat16 t12 = fb::cast<__nv_bfloat16>(t11);  // bias_gelu.yaml:11
        v12[k] = t12;
      }
      fb::store(T12 + row * n1 + i, v12);
    }
  }
}

FUSEBUILD_ENTRY(pointwise_rows_e9a8e169336d4a81)
