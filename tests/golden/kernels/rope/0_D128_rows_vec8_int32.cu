// rope.yaml, segment 0: pointwise, variant D128_rows_vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 21: 12}
// schedule: threads_x=16 threads_y=8 rows=4 unroll=1 min_blocks=6 walked=2
// launch: segment 0, D128_rows_vec8_int32 on sm_90: grid ceil_div(D, 128)*ceil_div(H, 32)*B*S, 1, 1; block 16, 8, 1;
//   given x, cos, sin, y, x, x, S, H, S*H*D, H*D, S*H*D, H*D; if D == 128, B*S*H*D < 2146435072, (D % 8) == 0, (max(D -
//   (D // 2), -1*(D - (D // 2))) % 8) == 0, ((D // 2) % 8) == 0, aligned(x, 16), aligned(cos, 16), aligned(sin, 16),
//   aligned(y, 16)
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreadsX = 16, kThreadsY = 8;  // along columns, along rows
constexpr int kVec = 8;  // neighbouring columns per access
constexpr int kRows = 4;  // rows of a thread
constexpr int kUnroll = 1;  // rows in flight per thread and tensor

FUSEBUILD_KERNEL(kThreadsX * kThreadsY, 6)
pointwise_rows_bdf303afab005bfd(
    const __nv_bfloat16* __restrict__ T0,  // x: bfloat16[B, S, H, D]
    const float* __restrict__ T1,  // cos: float[S, D]
    const float* __restrict__ T2,  // sin: float[S, D]
    __nv_bfloat16* __restrict__ T21,  // y: bfloat16[B, S, H, D]
    const __nv_bfloat16* __restrict__ X5,  // x: bfloat16[B, S, H, D], for second_place
    const __nv_bfloat16* __restrict__ X7,  // x: bfloat16[B, S, H, D], for first_place
    int64_t n1,  // S
    int64_t n2,  // H
    int64_t X5_stride0,  // stride of dim 0, in elements
    int64_t X5_stride1,  // stride of dim 1, in elements
    int64_t X7_stride0,  // stride of dim 0, in elements
    int64_t X7_stride1) {  // stride of dim 1, in elements
  constexpr int64_t s13 = 64;  // D - (D // 2)
  constexpr int64_t n3 = 128;  // D
  constexpr int64_t X5_stride2 = 128;  // stride of dim 2, in elements
  constexpr int64_t X5_offset = 64;  // D // 2
  constexpr int64_t X5_end3 = 64;  // D - (D // 2)
  constexpr int64_t X7_stride2 = 128;  // stride of dim 2, in elements
  constexpr int64_t X7_offset = -64;  // -1*(D - (D // 2))
  constexpr int64_t X7_first3 = 64;  // D - (D // 2)
  constexpr int64_t X7_end3 = 128;  // D
  const Index rows = n2, columns = n3;
  const Index column_tiles = (columns + kThreadsX * kVec - 1) / (kThreadsX * kVec);
  const Index tile = fb::block_x();
  const Index row_tiles = (rows + kThreadsY * kRows - 1) / (kThreadsY * kRows);
  const Index before = tile / column_tiles / row_tiles;
  const Index first_row = tile / column_tiles % row_tiles * (kThreadsY * kRows);
  const Index i = (tile % column_tiles * kThreadsX + fb::thread_x()) * kVec;
  if (i >= columns) return;
  const Index i1 = before % Index(n1);
  const Index i0 = before / Index(n1);

  // What is the same for every row.
  fb::Vec<bool, kVec> v14;
  const fb::Vec<float, kVec> v1 = fb::load<kVec>(T1 + i1 * n3 + i);
  const fb::Vec<float, kVec> v2 = fb::load<kVec>(T2 + i1 * n3 + i);
  FUSEBUILD_UNROLL
  for (int k = 0; k < kVec; ++k) {
    const int64_t t11 = int64_t(i + k);  // rope.yaml:12
    const bool t14 = t11 < s13;  // rope.yaml:12
    v14[k] = t14;
  }

  const Index next_tile = first_row + kThreadsY * kRows;
  const Index end = next_tile < rows ? next_tile : rows;
  for (Index top = first_row + fb::thread_y(); top < end; top += kUnroll * kThreadsY) {
    fb::Packed<__nv_bfloat16, kVec> p0[kUnroll];
    fb::Packed<__nv_bfloat16, kVec> q5[kUnroll];
    fb::Packed<__nv_bfloat16, kVec> q7[kUnroll];
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index row = top + u * kThreadsY;
      if (row >= end) break;
      p0[u] = fb::load_packed<kVec>(T0 + (before * n2 + row) * n3 + i);
      q5[u] = i < X5_end3
          ? fb::load_packed<kVec>(X5 + X5_offset + i0 * X5_stride0 + i1 * X5_stride1 + row * X5_stride2 + i)
          : fb::pack(fb::splat<kVec>(fb::cast<__nv_bfloat16>(0.0f)));
      q7[u] = i >= X7_first3 && i < X7_end3
          ? fb::load_packed<kVec>(X7 + X7_offset + i0 * X7_stride0 + i1 * X7_stride1 + row * X7_stride2 + i)
          : fb::pack(fb::splat<kVec>(fb::cast<__nv_bfloat16>(0.0f)));
    }
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index row = top + u * kThreadsY;
      if (row >= end) break;
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(p0[u]);
      const fb::Vec<__nv_bfloat16, kVec> x5 = fb::unpack(q5[u]);
      const fb::Vec<__nv_bfloat16, kVec> x7 = fb::unpack(q7[u]);
      fb::Vec<__nv_bfloat16, kVec> v21;
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const float t1 = v1[k];
        const float t2 = v2[k];
        const bool t14 = v14[k];
        const __nv_bfloat16 t0 = v0[k];
        const __nv_bfloat16 t5 = x5[k];
        const __nv_bfloat16 t7 = x7[k];
        const float t6 = -fb::cast<float>(t5);  // rope.yaml:12
        const float t8 = fb::cast<float>(t7);  // first_cast, rope.yaml:12
        const float t15 = fb::where(t14, t6, t8);  // rope.yaml:12
        const float t18 = fb::cast<float>(t0) * t1;  // rope.yaml:15
        const float t19 = t15 * t2;  // rope.yaml:15
        const float t20 = t18 + t19;  // y, rope.yaml:15
        const __nv_bfloat16 t21 = fb::cast<__nv_bfloat16>(t20);  // rope.yaml:17
        v21[k] = t21;
      }
      fb::store(T21 + (before * n2 + row) * n3 + i, v21);
    }
  }
}

FUSEBUILD_ENTRY(pointwise_rows_bdf303afab005bfd)
