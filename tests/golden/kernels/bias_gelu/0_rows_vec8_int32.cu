// bias_gelu.yaml, segment 0: pointwise, variant rows_vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 12: 11}
// schedule: threads=128 rows=8 unroll=1 min_blocks=11 walked=0
// launch: segment 0, rows_vec8_int32 on sm_90: grid argument 6*ceil_div(M, (128 // max(1, 2*(ceil_div(N, 8) > 1),
//   4*(ceil_div(N, 8) > 2), 8*(ceil_div(N, 8) > 4), 16*(128*ceil_div(ceil_div(N, 8), 16) <= 9*ceil_div(N, 8)),
//   32*(256*ceil_div(ceil_div(N, 8), 32) <= 9*ceil_div(N, 8)), 64*(512*ceil_div(ceil_div(N, 8), 64) <= 9*ceil_div(N,
//   8)), 128*(1024*ceil_div(ceil_div(N, 8), 128) <= 9*ceil_div(N, 8))))*argument 10), 1, 1; block 128, 1, 1; overlaps
//   what is before; given x, bias, y, M, N, ceil_div(ceil_div(N, 8), max(1, 2*(ceil_div(N, 8) > 1), 4*(ceil_div(N, 8) >
//   2), 8*(ceil_div(N, 8) > 4), 16*(128*ceil_div(ceil_div(N, 8), 16) <= 9*ceil_div(N, 8)), 32*(256*ceil_div(ceil_div(N,
//   8), 32) <= 9*ceil_div(N, 8)), 64*(512*ceil_div(ceil_div(N, 8), 64) <= 9*ceil_div(N, 8)),
//   128*(1024*ceil_div(ceil_div(N, 8), 128) <= 9*ceil_div(N, 8)))), 4294967295 // max(ceil_div(ceil_div(N, 8), max(1,
//   2*(ceil_div(N, 8) > 1), 4*(ceil_div(N, 8) > 2), 8*(ceil_div(N, 8) > 4), 16*(128*ceil_div(ceil_div(N, 8), 16) <=
//   9*ceil_div(N, 8)), 32*(256*ceil_div(ceil_div(N, 8), 32) <= 9*ceil_div(N, 8)), 64*(512*ceil_div(ceil_div(N, 8), 64)
//   <= 9*ceil_div(N, 8)), 128*(1024*ceil_div(ceil_div(N, 8), 128) <= 9*ceil_div(N, 8)))), 1), max(0, ceil_div(N, 8) >
//   1, 2*(ceil_div(N, 8) > 2), 3*(ceil_div(N, 8) > 4), 4*(128*ceil_div(ceil_div(N, 8), 16) <= 9*ceil_div(N, 8)),
//   5*(256*ceil_div(ceil_div(N, 8), 32) <= 9*ceil_div(N, 8)), 6*(512*ceil_div(ceil_div(N, 8), 64) <= 9*ceil_div(N, 8)),
//   7*(1024*ceil_div(ceil_div(N, 8), 128) <= 9*ceil_div(N, 8))), 7 - max(0, ceil_div(N, 8) > 1, 2*(ceil_div(N, 8) > 2),
//   3*(ceil_div(N, 8) > 4), 4*(128*ceil_div(ceil_div(N, 8), 16) <= 9*ceil_div(N, 8)), 5*(256*ceil_div(ceil_div(N, 8),
//   32) <= 9*ceil_div(N, 8)), 6*(512*ceil_div(ceil_div(N, 8), 64) <= 9*ceil_div(N, 8)), 7*(1024*ceil_div(ceil_div(N,
//   8), 128) <= 9*ceil_div(N, 8))), max(1, ceil_div(ceil_div(M, 128 // max(1, 2*(ceil_div(N, 8) > 1), 4*(ceil_div(N, 8)
//   > 2), 8*(ceil_div(N, 8) > 4), 16*(128*ceil_div(ceil_div(N, 8), 16) <= 9*ceil_div(N, 8)),
//   32*(256*ceil_div(ceil_div(N, 8), 32) <= 9*ceil_div(N, 8)), 64*(512*ceil_div(ceil_div(N, 8), 64) <= 9*ceil_div(N,
//   8)), 128*(1024*ceil_div(ceil_div(N, 8), 128) <= 9*ceil_div(N, 8)))), max(1, ceil_div(ceil_div(M, 128 // max(1,
//   2*(ceil_div(N, 8) > 1), 4*(ceil_div(N, 8) > 2), 8*(ceil_div(N, 8) > 4), 16*(128*ceil_div(ceil_div(N, 8), 16) <=
//   9*ceil_div(N, 8)), 32*(256*ceil_div(ceil_div(N, 8), 32) <= 9*ceil_div(N, 8)), 64*(512*ceil_div(ceil_div(N, 8), 64)
//   <= 9*ceil_div(N, 8)), 128*(1024*ceil_div(ceil_div(N, 8), 128) <= 9*ceil_div(N, 8)))), max(1, 2*(M*N >=
//   8192*gpu.multiprocessors), 4*(M*N >= 16384*gpu.multiprocessors), 8*(M*N >= 32768*gpu.multiprocessors)))))); if M*N
//   < 2146435072, (N % 8) == 0, aligned(x, 16), aligned(bias, 16), aligned(y, 16)
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreads = 128;
constexpr int kVec = 8;  // neighbouring columns per access
constexpr int kUnroll = 1;  // rows in flight per thread and tensor

FUSEBUILD_KERNEL(kThreads, 11)
pointwise_rows_82af9f6a00e9987f(
    const __nv_bfloat16* T0,  // x: bfloat16[M, N]
    const __nv_bfloat16* T1,  // bias: bfloat16[N]
    __nv_bfloat16* __restrict__ T12,  // y: bfloat16[M, N]
    int64_t n0,  // M
    int64_t n1,  // N
    int64_t column_tiles,  // beside each other
    int64_t column_tiles_reciprocal,  // reciprocal of column_tiles
    int64_t column_shift,  // of the threads along columns
    int64_t row_shift,  // of those along rows
    int64_t each) {  // of the rows of a thread
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const Index rows = Index(n0), columns = Index(n1);
  const int across = int(column_shift), down = int(row_shift);
  const int lane = fb::thread_x() & ((1 << across) - 1), line = fb::thread_x() >> across;
  const fb::Divided tile = fb::divided(fb::block_x(), Index(column_tiles), column_tiles_reciprocal);
  const Index row_tile = tile.quotient, i = ((tile.remainder << across) + lane) * kVec;
  const Index step = 1 << down, tile_rows = step * Index(each);
  const Index tile_row = row_tile * tile_rows;
  const Index first_row = tile_row + (line & (step - 1)), next_tile = tile_row + tile_rows;
  const Index end = next_tile < rows ? next_tile : rows;
  if (i >= columns || first_row >= end) return;
  // The first rows are on their way before anything is computed, and the positions of the next ones.
  fb::Packed<__nv_bfloat16, kVec> p0[kUnroll];
  const fb::Packed<__nv_bfloat16, kVec> p1 = fb::load_packed<kVec>(T1 + i);
  FUSEBUILD_UNROLL
  for (int u = 0; u < kUnroll; ++u) {
    const Index row = first_row + u * step;
    if (row >= end) break;
    p0[u] = fb::load_packed<kVec>(T0 + (row * Index(n1) + i));
  }

  // What is the same for every row.
  const fb::Vec<__nv_bfloat16, kVec> v1 = fb::unpack(p1);

  for (Index top = first_row; top < end;) {
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index row = top + u * step;
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
      fb::store(T12 + (row * Index(n1) + i), v12);
    }
    top += kUnroll * step;
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index row = top + u * step;
      if (row >= end) break;
      p0[u] = fb::load_packed<kVec>(T0 + (row * Index(n1) + i));
    }
  }
}

FUSEBUILD_ENTRY(pointwise_rows_82af9f6a00e9987f)
