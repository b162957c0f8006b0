// rope.yaml, segment 0: pointwise, variant rows_vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 21: 12}
// schedule: threads=128 rows=8 unroll=1 min_blocks=6 walked=2
// launch: segment 0, rows_vec8_int32 on sm_90: grid argument 15*argument 17*ceil_div(B*S, (128 // max(1, 2*(ceil_div(D,
//   8) > 1), 4*(ceil_div(D, 8) > 2), 8*(ceil_div(D, 8) > 4), 16*(128*ceil_div(ceil_div(D, 8), 16) <= 9*ceil_div(D, 8)),
//   32*(256*ceil_div(ceil_div(D, 8), 32) <= 9*ceil_div(D, 8)), 64*(512*ceil_div(ceil_div(D, 8), 64) <= 9*ceil_div(D,
//   8)), 128*(1024*ceil_div(ceil_div(D, 8), 128) <= 9*ceil_div(D, 8)))) // min(128 // max(1, 2*(ceil_div(D, 8) > 1),
//   4*(ceil_div(D, 8) > 2), 8*(ceil_div(D, 8) > 4), 16*(128*ceil_div(ceil_div(D, 8), 16) <= 9*ceil_div(D, 8)),
//   32*(256*ceil_div(ceil_div(D, 8), 32) <= 9*ceil_div(D, 8)), 64*(512*ceil_div(ceil_div(D, 8), 64) <= 9*ceil_div(D,
//   8)), 128*(1024*ceil_div(ceil_div(D, 8), 128) <= 9*ceil_div(D, 8))), max(1, 2*(H >= 8), 4*(H >= 16), 8*(H >= 32),
//   16*(H >= 64), 32*(H >= 128), 64*(H >= 256), 128*(H >= 512)))), 1, 1; block 128, 1, 1; overlaps what is before;
//   given x, cos, sin, y, x, D - (D // 2), B, S, H, D, D // 2, D - (D // 2), -1*(D - (D // 2)), 4294967295 // max(S,
//   1), ceil_div(ceil_div(D, 8), max(1, 2*(ceil_div(D, 8) > 1), 4*(ceil_div(D, 8) > 2), 8*(ceil_div(D, 8) > 4),
//   16*(128*ceil_div(ceil_div(D, 8), 16) <= 9*ceil_div(D, 8)), 32*(256*ceil_div(ceil_div(D, 8), 32) <= 9*ceil_div(D,
//   8)), 64*(512*ceil_div(ceil_div(D, 8), 64) <= 9*ceil_div(D, 8)), 128*(1024*ceil_div(ceil_div(D, 8), 128) <=
//   9*ceil_div(D, 8)))), 4294967295 // max(ceil_div(ceil_div(D, 8), max(1, 2*(ceil_div(D, 8) > 1), 4*(ceil_div(D, 8) >
//   2), 8*(ceil_div(D, 8) > 4), 16*(128*ceil_div(ceil_div(D, 8), 16) <= 9*ceil_div(D, 8)), 32*(256*ceil_div(ceil_div(D,
//   8), 32) <= 9*ceil_div(D, 8)), 64*(512*ceil_div(ceil_div(D, 8), 64) <= 9*ceil_div(D, 8)),
//   128*(1024*ceil_div(ceil_div(D, 8), 128) <= 9*ceil_div(D, 8)))), 1), ceil_div(H, min(128 // max(1, 2*(ceil_div(D, 8)
//   > 1), 4*(ceil_div(D, 8) > 2), 8*(ceil_div(D, 8) > 4), 16*(128*ceil_div(ceil_div(D, 8), 16) <= 9*ceil_div(D, 8)),
//   32*(256*ceil_div(ceil_div(D, 8), 32) <= 9*ceil_div(D, 8)), 64*(512*ceil_div(ceil_div(D, 8), 64) <= 9*ceil_div(D,
//   8)), 128*(1024*ceil_div(ceil_div(D, 8), 128) <= 9*ceil_div(D, 8))), max(1, 2*(H >= 8), 4*(H >= 16), 8*(H >= 32),
//   16*(H >= 64), 32*(H >= 128), 64*(H >= 256), 128*(H >= 512)))*max(1, ceil_div(ceil_div(H, min(128 // max(1,
//   2*(ceil_div(D, 8) > 1), 4*(ceil_div(D, 8) > 2), 8*(ceil_div(D, 8) > 4), 16*(128*ceil_div(ceil_div(D, 8), 16) <=
//   9*ceil_div(D, 8)), 32*(256*ceil_div(ceil_div(D, 8), 32) <= 9*ceil_div(D, 8)), 64*(512*ceil_div(ceil_div(D, 8), 64)
//   <= 9*ceil_div(D, 8)), 128*(1024*ceil_div(ceil_div(D, 8), 128) <= 9*ceil_div(D, 8))), max(1, 2*(H >= 8), 4*(H >=
//   16), 8*(H >= 32), 16*(H >= 64), 32*(H >= 128), 64*(H >= 256), 128*(H >= 512)))), max(1, ceil_div(ceil_div(H,
//   min(128 // max(1, 2*(ceil_div(D, 8) > 1), 4*(ceil_div(D, 8) > 2), 8*(ceil_div(D, 8) > 4),
//   16*(128*ceil_div(ceil_div(D, 8), 16) <= 9*ceil_div(D, 8)), 32*(256*ceil_div(ceil_div(D, 8), 32) <= 9*ceil_div(D,
//   8)), 64*(512*ceil_div(ceil_div(D, 8), 64) <= 9*ceil_div(D, 8)), 128*(1024*ceil_div(ceil_div(D, 8), 128) <=
//   9*ceil_div(D, 8))), max(1, 2*(H >= 8), 4*(H >= 16), 8*(H >= 32), 16*(H >= 64), 32*(H >= 128), 64*(H >= 256), 128*(H
//   >= 512)))), max(1, 2*(B*S*H*D >= 8192*gpu.multiprocessors), 4*(B*S*H*D >= 16384*gpu.multiprocessors), 8*(B*S*H*D >=
//   32768*gpu.multiprocessors))))))), 4294967295 // max(ceil_div(H, min(128 // max(1, 2*(ceil_div(D, 8) > 1),
//   4*(ceil_div(D, 8) > 2), 8*(ceil_div(D, 8) > 4), 16*(128*ceil_div(ceil_div(D, 8), 16) <= 9*ceil_div(D, 8)),
//   32*(256*ceil_div(ceil_div(D, 8), 32) <= 9*ceil_div(D, 8)), 64*(512*ceil_div(ceil_div(D, 8), 64) <= 9*ceil_div(D,
//   8)), 128*(1024*ceil_div(ceil_div(D, 8), 128) <= 9*ceil_div(D, 8))), max(1, 2*(H >= 8), 4*(H >= 16), 8*(H >= 32),
//   16*(H >= 64), 32*(H >= 128), 64*(H >= 256), 128*(H >= 512)))*max(1, ceil_div(ceil_div(H, min(128 // max(1,
//   2*(ceil_div(D, 8) > 1), 4*(ceil_div(D, 8) > 2), 8*(ceil_div(D, 8) > 4), 16*(128*ceil_div(ceil_div(D, 8), 16) <=
//   9*ceil_div(D, 8)), 32*(256*ceil_div(ceil_div(D, 8), 32) <= 9*ceil_div(D, 8)), 64*(512*ceil_div(ceil_div(D, 8), 64)
//   <= 9*ceil_div(D, 8)), 128*(1024*ceil_div(ceil_div(D, 8), 128) <= 9*ceil_div(D, 8))), max(1, 2*(H >= 8), 4*(H >=
//   16), 8*(H >= 32), 16*(H >= 64), 32*(H >= 128), 64*(H >= 256), 128*(H >= 512)))), max(1, ceil_div(ceil_div(H,
//   min(128 // max(1, 2*(ceil_div(D, 8) > 1), 4*(ceil_div(D, 8) > 2), 8*(ceil_div(D, 8) > 4),
//   16*(128*ceil_div(ceil_div(D, 8), 16) <= 9*ceil_div(D, 8)), 32*(256*ceil_div(ceil_div(D, 8), 32) <= 9*ceil_div(D,
//   8)), 64*(512*ceil_div(ceil_div(D, 8), 64) <= 9*ceil_div(D, 8)), 128*(1024*ceil_div(ceil_div(D, 8), 128) <=
//   9*ceil_div(D, 8))), max(1, 2*(H >= 8), 4*(H >= 16), 8*(H >= 32), 16*(H >= 64), 32*(H >= 128), 64*(H >= 256), 128*(H
//   >= 512)))), max(1, 2*(B*S*H*D >= 8192*gpu.multiprocessors), 4*(B*S*H*D >= 16384*gpu.multiprocessors), 8*(B*S*H*D >=
//   32768*gpu.multiprocessors))))))), 1), max(0, ceil_div(D, 8) > 1, 2*(ceil_div(D, 8) > 2), 3*(ceil_div(D, 8) > 4),
//   4*(128*ceil_div(ceil_div(D, 8), 16) <= 9*ceil_div(D, 8)), 5*(256*ceil_div(ceil_div(D, 8), 32) <= 9*ceil_div(D, 8)),
//   6*(512*ceil_div(ceil_div(D, 8), 64) <= 9*ceil_div(D, 8)), 7*(1024*ceil_div(ceil_div(D, 8), 128) <= 9*ceil_div(D,
//   8))), min(7 - max(0, ceil_div(D, 8) > 1, 2*(ceil_div(D, 8) > 2), 3*(ceil_div(D, 8) > 4),
//   4*(128*ceil_div(ceil_div(D, 8), 16) <= 9*ceil_div(D, 8)), 5*(256*ceil_div(ceil_div(D, 8), 32) <= 9*ceil_div(D, 8)),
//   6*(512*ceil_div(ceil_div(D, 8), 64) <= 9*ceil_div(D, 8)), 7*(1024*ceil_div(ceil_div(D, 8), 128) <= 9*ceil_div(D,
//   8))), max(0, H >= 8, 2*(H >= 16), 3*(H >= 32), 4*(H >= 64), 5*(H >= 128), 6*(H >= 256), 7*(H >= 512))), max(1,
//   ceil_div(ceil_div(H, min(128 // max(1, 2*(ceil_div(D, 8) > 1), 4*(ceil_div(D, 8) > 2), 8*(ceil_div(D, 8) > 4),
//   16*(128*ceil_div(ceil_div(D, 8), 16) <= 9*ceil_div(D, 8)), 32*(256*ceil_div(ceil_div(D, 8), 32) <= 9*ceil_div(D,
//   8)), 64*(512*ceil_div(ceil_div(D, 8), 64) <= 9*ceil_div(D, 8)), 128*(1024*ceil_div(ceil_div(D, 8), 128) <=
//   9*ceil_div(D, 8))), max(1, 2*(H >= 8), 4*(H >= 16), 8*(H >= 32), 16*(H >= 64), 32*(H >= 128), 64*(H >= 256), 128*(H
//   >= 512)))), max(1, ceil_div(ceil_div(H, min(128 // max(1, 2*(ceil_div(D, 8) > 1), 4*(ceil_div(D, 8) > 2),
//   8*(ceil_div(D, 8) > 4), 16*(128*ceil_div(ceil_div(D, 8), 16) <= 9*ceil_div(D, 8)), 32*(256*ceil_div(ceil_div(D, 8),
//   32) <= 9*ceil_div(D, 8)), 64*(512*ceil_div(ceil_div(D, 8), 64) <= 9*ceil_div(D, 8)), 128*(1024*ceil_div(ceil_div(D,
//   8), 128) <= 9*ceil_div(D, 8))), max(1, 2*(H >= 8), 4*(H >= 16), 8*(H >= 32), 16*(H >= 64), 32*(H >= 128), 64*(H >=
//   256), 128*(H >= 512)))), max(1, 2*(B*S*H*D >= 8192*gpu.multiprocessors), 4*(B*S*H*D >= 16384*gpu.multiprocessors),
//   8*(B*S*H*D >= 32768*gpu.multiprocessors)))))); if B*S*H*D < 2146435072, (D % 8) == 0, (max(D - (D // 2), -1*(D - (D
//   // 2))) % 8) == 0, ((D // 2) % 8) == 0, aligned(x, 16), aligned(cos, 16), aligned(sin, 16), aligned(y, 16)
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreads = 128;
constexpr int kVec = 8;  // neighbouring columns per access
constexpr int kUnroll = 1;  // rows in flight per thread and tensor

FUSEBUILD_KERNEL(kThreads, 6)
pointwise_rows_bd569129a7326538(
    const __nv_bfloat16* T0,  // x: bfloat16[B, S, H, D]
    const float* T1,  // cos: float[S, D]
    const float* T2,  // sin: float[S, D]
    __nv_bfloat16* __restrict__ T21,  // y: bfloat16[B, S, H, D]
    const __nv_bfloat16* X5,  // x: bfloat16[B, S, H, D], for second_place
    int64_t s13,  // D - (D // 2)
    int64_t n0,  // B
    int64_t n1,  // S
    int64_t n2,  // H
    int64_t n3,  // D
    int64_t X5_offset,  // D // 2
    int64_t X5_end3,  // D - (D // 2)
    int64_t X7_offset,  // -1*(D - (D // 2))
    int64_t n1_reciprocal,  // reciprocal of n1
    int64_t column_tiles,  // beside each other
    int64_t column_tiles_reciprocal,  // reciprocal of column_tiles
    int64_t row_tiles,  // beside each other
    int64_t row_tiles_reciprocal,  // reciprocal of row_tiles
    int64_t column_shift,  // of the threads along columns
    int64_t row_shift,  // of those along rows
    int64_t each) {  // of the rows of a thread
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const Index rows = Index(n2), columns = Index(n3);
  const int across = int(column_shift), down = int(row_shift);
  const int lane = fb::thread_x() & ((1 << across) - 1), line = fb::thread_x() >> across;
  const fb::Divided tile = fb::divided(fb::block_x(), Index(column_tiles), column_tiles_reciprocal);
  const Index row_tile = tile.quotient, i = ((tile.remainder << across) + lane) * kVec;
  const Index step = 1 << down, tile_rows = step * Index(each);
  const fb::Divided matrix = fb::divided(row_tile, Index(row_tiles), row_tiles_reciprocal);
  const Index tile_row = matrix.remainder * tile_rows;
  const int outwards = 7 - across - down;
  const Index before = (matrix.quotient << outwards) + (line >> down);
  const Index first_row = tile_row + (line & (step - 1)), next_tile = tile_row + tile_rows;
  const Index end = next_tile < rows ? next_tile : rows;
  if (i >= columns || first_row >= end || before >= Index(n0) * Index(n1)) return;
  const Index i1 = fb::divided(before, Index(n1), n1_reciprocal).remainder;
  const fb::Packed<float, kVec> p1 = fb::load_packed<kVec>(T1 + (i1 * Index(n3) + i));
  const fb::Packed<float, kVec> p2 = fb::load_packed<kVec>(T2 + (i1 * Index(n3) + i));

  // What is the same for every row.
  const fb::Vec<float, kVec> v1 = fb::unpack(p1);
  const fb::Vec<float, kVec> v2 = fb::unpack(p2);
  fb::Vec<bool, kVec> v14;
  FUSEBUILD_UNROLL
  for (int k = 0; k < kVec; ++k) {
    const int64_t t11 = int64_t(i + k);  // rope.yaml:10
    const bool t14 = t11 < s13;  // rope.yaml:10
    v14[k] = t14;
  }

  for (Index top = first_row; top < end;) {
    fb::Packed<__nv_bfloat16, kVec> p0[kUnroll];
    fb::Packed<__nv_bfloat16, kVec> q5[kUnroll];
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index row = top + u * step;
      if (row >= end) break;
      p0[u] = fb::load_packed<kVec>(T0 + ((before * Index(n2) + row) * Index(n3) + i));
      q5[u] =
          fb::load_packed<kVec>(
          X5 + (
          (i < Index(X5_end3) ? Index(X5_offset) : Index(X7_offset)) + ((before * Index(n2) + row) * Index(n3) + i)));
    }
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index row = top + u * step;
      if (row >= end) break;
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(p0[u]);
      const fb::Vec<__nv_bfloat16, kVec> x5 = fb::unpack(q5[u]);
      fb::Vec<__nv_bfloat16, kVec> v21;
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const float t1 = v1[k];
        const float t2 = v2[k];
        const bool t14 = v14[k];
        const __nv_bfloat16 t0 = v0[k];
        const __nv_bfloat16 t5 = x5[k];
        const __nv_bfloat16 t7 = x5[k];
        const float t6 = -fb::cast<float>(t5);  // rope.yaml:10
        const float t8 = fb::cast<float>(t7);  // first_cast, rope.yaml:10
        const float t15 = fb::where(t14, t6, t8);  // rope.yaml:10
        const float t18 = fb::cast<float>(t0) * t1;  // rope.yaml:13
        const float t19 = t15 * t2;  // rope.yaml:13
        const float t20 = t18 + t19;  // y, rope.yaml:13
        const __nv_bfloat16 t21 = fb::cast<__nv_bfloat16>(t20);  // rope.yaml:15
        v21[k] = t21;
      }
      fb::store(T21 + ((before * Index(n2) + row) * Index(n3) + i), v21);
    }
    top += kUnroll * step;
  }
}

FUSEBUILD_ENTRY(pointwise_rows_bd569129a7326538)
