// outer_normalization.yaml, segment 4: pointwise, variant rows_vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 3: 5, 4: 11, 5: 14, 12: 10, 16: 24}
// schedule: threads=128 rows=8 unroll=1 min_blocks=5 walked=1, backwards
// launch: segment 4, rows_vec8_int32 on sm_90: grid argument 12*argument 14*ceil_div(A, (128 // max(1, 2*(ceil_div(C,
//   8) > 1), 4*(ceil_div(C, 8) > 2), 8*(ceil_div(C, 8) > 4), 16*(128*ceil_div(ceil_div(C, 8), 16) <= 9*ceil_div(C, 8)),
//   32*(256*ceil_div(ceil_div(C, 8), 32) <= 9*ceil_div(C, 8)), 64*(512*ceil_div(ceil_div(C, 8), 64) <= 9*ceil_div(C,
//   8)), 128*(1024*ceil_div(ceil_div(C, 8), 128) <= 9*ceil_div(C, 8)))) // min(128 // max(1, 2*(ceil_div(C, 8) > 1),
//   4*(ceil_div(C, 8) > 2), 8*(ceil_div(C, 8) > 4), 16*(128*ceil_div(ceil_div(C, 8), 16) <= 9*ceil_div(C, 8)),
//   32*(256*ceil_div(ceil_div(C, 8), 32) <= 9*ceil_div(C, 8)), 64*(512*ceil_div(ceil_div(C, 8), 64) <= 9*ceil_div(C,
//   8)), 128*(1024*ceil_div(ceil_div(C, 8), 128) <= 9*ceil_div(C, 8))), max(1, 2*(B >= 8), 4*(B >= 16), 8*(B >= 32),
//   16*(B >= 64), 32*(B >= 128), 64*(B >= 256), 128*(B >= 512)))), 1, 1; block 128, 1, 1; overlaps what is before;
//   given x, weight, mean_outer, var_outer, middle_max, t14, batch_norm, middle_softmax, A, B, C, ceil_div(ceil_div(C,
//   8), max(1, 2*(ceil_div(C, 8) > 1), 4*(ceil_div(C, 8) > 2), 8*(ceil_div(C, 8) > 4), 16*(128*ceil_div(ceil_div(C, 8),
//   16) <= 9*ceil_div(C, 8)), 32*(256*ceil_div(ceil_div(C, 8), 32) <= 9*ceil_div(C, 8)), 64*(512*ceil_div(ceil_div(C,
//   8), 64) <= 9*ceil_div(C, 8)), 128*(1024*ceil_div(ceil_div(C, 8), 128) <= 9*ceil_div(C, 8)))), 4294967295 //
//   max(ceil_div(ceil_div(C, 8), max(1, 2*(ceil_div(C, 8) > 1), 4*(ceil_div(C, 8) > 2), 8*(ceil_div(C, 8) > 4),
//   16*(128*ceil_div(ceil_div(C, 8), 16) <= 9*ceil_div(C, 8)), 32*(256*ceil_div(ceil_div(C, 8), 32) <= 9*ceil_div(C,
//   8)), 64*(512*ceil_div(ceil_div(C, 8), 64) <= 9*ceil_div(C, 8)), 128*(1024*ceil_div(ceil_div(C, 8), 128) <=
//   9*ceil_div(C, 8)))), 1), ceil_div(B, min(128 // max(1, 2*(ceil_div(C, 8) > 1), 4*(ceil_div(C, 8) > 2),
//   8*(ceil_div(C, 8) > 4), 16*(128*ceil_div(ceil_div(C, 8), 16) <= 9*ceil_div(C, 8)), 32*(256*ceil_div(ceil_div(C, 8),
//   32) <= 9*ceil_div(C, 8)), 64*(512*ceil_div(ceil_div(C, 8), 64) <= 9*ceil_div(C, 8)), 128*(1024*ceil_div(ceil_div(C,
//   8), 128) <= 9*ceil_div(C, 8))), max(1, 2*(B >= 8), 4*(B >= 16), 8*(B >= 32), 16*(B >= 64), 32*(B >= 128), 64*(B >=
//   256), 128*(B >= 512)))*max(1, ceil_div(ceil_div(B, min(128 // max(1, 2*(ceil_div(C, 8) > 1), 4*(ceil_div(C, 8) >
//   2), 8*(ceil_div(C, 8) > 4), 16*(128*ceil_div(ceil_div(C, 8), 16) <= 9*ceil_div(C, 8)), 32*(256*ceil_div(ceil_div(C,
//   8), 32) <= 9*ceil_div(C, 8)), 64*(512*ceil_div(ceil_div(C, 8), 64) <= 9*ceil_div(C, 8)),
//   128*(1024*ceil_div(ceil_div(C, 8), 128) <= 9*ceil_div(C, 8))), max(1, 2*(B >= 8), 4*(B >= 16), 8*(B >= 32), 16*(B
//   >= 64), 32*(B >= 128), 64*(B >= 256), 128*(B >= 512)))), max(1, ceil_div(ceil_div(B, min(128 // max(1,
//   2*(ceil_div(C, 8) > 1), 4*(ceil_div(C, 8) > 2), 8*(ceil_div(C, 8) > 4), 16*(128*ceil_div(ceil_div(C, 8), 16) <=
//   9*ceil_div(C, 8)), 32*(256*ceil_div(ceil_div(C, 8), 32) <= 9*ceil_div(C, 8)), 64*(512*ceil_div(ceil_div(C, 8), 64)
//   <= 9*ceil_div(C, 8)), 128*(1024*ceil_div(ceil_div(C, 8), 128) <= 9*ceil_div(C, 8))), max(1, 2*(B >= 8), 4*(B >=
//   16), 8*(B >= 32), 16*(B >= 64), 32*(B >= 128), 64*(B >= 256), 128*(B >= 512)))), max(1, 2*(A*B*C >=
//   8192*gpu.multiprocessors), 4*(A*B*C >= 16384*gpu.multiprocessors), 8*(A*B*C >= 32768*gpu.multiprocessors))))))),
//   4294967295 // max(ceil_div(B, min(128 // max(1, 2*(ceil_div(C, 8) > 1), 4*(ceil_div(C, 8) > 2), 8*(ceil_div(C, 8) >
//   4), 16*(128*ceil_div(ceil_div(C, 8), 16) <= 9*ceil_div(C, 8)), 32*(256*ceil_div(ceil_div(C, 8), 32) <=
//   9*ceil_div(C, 8)), 64*(512*ceil_div(ceil_div(C, 8), 64) <= 9*ceil_div(C, 8)), 128*(1024*ceil_div(ceil_div(C, 8),
//   128) <= 9*ceil_div(C, 8))), max(1, 2*(B >= 8), 4*(B >= 16), 8*(B >= 32), 16*(B >= 64), 32*(B >= 128), 64*(B >=
//   256), 128*(B >= 512)))*max(1, ceil_div(ceil_div(B, min(128 // max(1, 2*(ceil_div(C, 8) > 1), 4*(ceil_div(C, 8) >
//   2), 8*(ceil_div(C, 8) > 4), 16*(128*ceil_div(ceil_div(C, 8), 16) <= 9*ceil_div(C, 8)), 32*(256*ceil_div(ceil_div(C,
//   8), 32) <= 9*ceil_div(C, 8)), 64*(512*ceil_div(ceil_div(C, 8), 64) <= 9*ceil_div(C, 8)),
//   128*(1024*ceil_div(ceil_div(C, 8), 128) <= 9*ceil_div(C, 8))), max(1, 2*(B >= 8), 4*(B >= 16), 8*(B >= 32), 16*(B
//   >= 64), 32*(B >= 128), 64*(B >= 256), 128*(B >= 512)))), max(1, ceil_div(ceil_div(B, min(128 // max(1,
//   2*(ceil_div(C, 8) > 1), 4*(ceil_div(C, 8) > 2), 8*(ceil_div(C, 8) > 4), 16*(128*ceil_div(ceil_div(C, 8), 16) <=
//   9*ceil_div(C, 8)), 32*(256*ceil_div(ceil_div(C, 8), 32) <= 9*ceil_div(C, 8)), 64*(512*ceil_div(ceil_div(C, 8), 64)
//   <= 9*ceil_div(C, 8)), 128*(1024*ceil_div(ceil_div(C, 8), 128) <= 9*ceil_div(C, 8))), max(1, 2*(B >= 8), 4*(B >=
//   16), 8*(B >= 32), 16*(B >= 64), 32*(B >= 128), 64*(B >= 256), 128*(B >= 512)))), max(1, 2*(A*B*C >=
//   8192*gpu.multiprocessors), 4*(A*B*C >= 16384*gpu.multiprocessors), 8*(A*B*C >= 32768*gpu.multiprocessors))))))),
//   1), max(0, ceil_div(C, 8) > 1, 2*(ceil_div(C, 8) > 2), 3*(ceil_div(C, 8) > 4), 4*(128*ceil_div(ceil_div(C, 8), 16)
//   <= 9*ceil_div(C, 8)), 5*(256*ceil_div(ceil_div(C, 8), 32) <= 9*ceil_div(C, 8)), 6*(512*ceil_div(ceil_div(C, 8), 64)
//   <= 9*ceil_div(C, 8)), 7*(1024*ceil_div(ceil_div(C, 8), 128) <= 9*ceil_div(C, 8))), min(7 - max(0, ceil_div(C, 8) >
//   1, 2*(ceil_div(C, 8) > 2), 3*(ceil_div(C, 8) > 4), 4*(128*ceil_div(ceil_div(C, 8), 16) <= 9*ceil_div(C, 8)),
//   5*(256*ceil_div(ceil_div(C, 8), 32) <= 9*ceil_div(C, 8)), 6*(512*ceil_div(ceil_div(C, 8), 64) <= 9*ceil_div(C, 8)),
//   7*(1024*ceil_div(ceil_div(C, 8), 128) <= 9*ceil_div(C, 8))), max(0, B >= 8, 2*(B >= 16), 3*(B >= 32), 4*(B >= 64),
//   5*(B >= 128), 6*(B >= 256), 7*(B >= 512))), max(1, ceil_div(ceil_div(B, min(128 // max(1, 2*(ceil_div(C, 8) > 1),
//   4*(ceil_div(C, 8) > 2), 8*(ceil_div(C, 8) > 4), 16*(128*ceil_div(ceil_div(C, 8), 16) <= 9*ceil_div(C, 8)),
//   32*(256*ceil_div(ceil_div(C, 8), 32) <= 9*ceil_div(C, 8)), 64*(512*ceil_div(ceil_div(C, 8), 64) <= 9*ceil_div(C,
//   8)), 128*(1024*ceil_div(ceil_div(C, 8), 128) <= 9*ceil_div(C, 8))), max(1, 2*(B >= 8), 4*(B >= 16), 8*(B >= 32),
//   16*(B >= 64), 32*(B >= 128), 64*(B >= 256), 128*(B >= 512)))), max(1, ceil_div(ceil_div(B, min(128 // max(1,
//   2*(ceil_div(C, 8) > 1), 4*(ceil_div(C, 8) > 2), 8*(ceil_div(C, 8) > 4), 16*(128*ceil_div(ceil_div(C, 8), 16) <=
//   9*ceil_div(C, 8)), 32*(256*ceil_div(ceil_div(C, 8), 32) <= 9*ceil_div(C, 8)), 64*(512*ceil_div(ceil_div(C, 8), 64)
//   <= 9*ceil_div(C, 8)), 128*(1024*ceil_div(ceil_div(C, 8), 128) <= 9*ceil_div(C, 8))), max(1, 2*(B >= 8), 4*(B >=
//   16), 8*(B >= 32), 16*(B >= 64), 32*(B >= 128), 64*(B >= 256), 128*(B >= 512)))), max(1, 2*(A*B*C >=
//   8192*gpu.multiprocessors), 4*(A*B*C >= 16384*gpu.multiprocessors), 8*(A*B*C >= 32768*gpu.multiprocessors)))))); if
//   A*B*C < 2146435072, (C % 8) == 0, aligned(x, 16), aligned(weight, 16), aligned(mean_outer, 16), aligned(var_outer,
//   16), aligned(middle_max, 16), aligned(t14, 16), aligned(batch_norm, 16), aligned(middle_softmax, 16)
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreads = 128;
constexpr int kVec = 8;  // neighbouring columns per access
constexpr int kUnroll = 1;  // rows in flight per thread and tensor

FUSEBUILD_KERNEL(kThreads, 5)
pointwise_rows_fe31f7e422b51a2b(
    const float* T0,  // x: float[A, B, C]
    const float* T1,  // weight: float[C]
    const float* T2,  // mean_outer: float[1, 1, C]
    const float* T3,  // var_outer: float[1, 1, C]
    const float* T4,  // middle_max: float[A, 1, C]
    const float* T5,  // t14: float[A, 1, C]
    float* __restrict__ T12,  // batch_norm: float[A, B, C]
    __half* __restrict__ T16,  // middle_softmax: half[A, B, C]
    int64_t n0,  // A
    int64_t n1,  // B
    int64_t n2,  // C
    int64_t column_tiles,  // beside each other
    int64_t column_tiles_reciprocal,  // reciprocal of column_tiles
    int64_t row_tiles,  // beside each other
    int64_t row_tiles_reciprocal,  // reciprocal of row_tiles
    int64_t column_shift,  // of the threads along columns
    int64_t row_shift,  // of those along rows
    int64_t each) {  // of the rows of a thread
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const Index rows = Index(n1), columns = Index(n2);
  const int across = int(column_shift), down = int(row_shift);
  const int lane = fb::thread_x() & ((1 << across) - 1), line = fb::thread_x() >> across;
  const fb::Divided tile = fb::divided(fb::grid_x() - 1 - fb::block_x(), Index(column_tiles), column_tiles_reciprocal);
  const Index row_tile = tile.quotient, i = ((tile.remainder << across) + lane) * kVec;
  const Index step = 1 << down, tile_rows = step * Index(each);
  const fb::Divided matrix = fb::divided(row_tile, Index(row_tiles), row_tiles_reciprocal);
  const Index tile_row = matrix.remainder * tile_rows;
  const int outwards = 7 - across - down;
  const Index before = (matrix.quotient << outwards) + (line >> down);
  const Index first_row = tile_row + (line & (step - 1)), next_tile = tile_row + tile_rows;
  const Index end = next_tile < rows ? next_tile : rows;
  if (i >= columns || first_row >= end || before >= Index(n0)) return;
  // The first rows are on their way before anything is computed, and the positions of the next ones.
  fb::Packed<float, kVec> p0[kUnroll];
  const fb::Packed<float, kVec> p1 = fb::load_packed<kVec>(T1 + i);
  const fb::Packed<float, kVec> p2 = fb::load_packed<kVec>(T2 + i);
  const fb::Packed<float, kVec> p3 = fb::load_packed<kVec>(T3 + i);
  const fb::Packed<float, kVec> p4 = fb::load_packed<kVec>(T4 + (before * Index(n2) + i));
  const fb::Packed<float, kVec> p5 = fb::load_packed<kVec>(T5 + (before * Index(n2) + i));
  FUSEBUILD_UNROLL
  for (int u = 0; u < kUnroll; ++u) {
    const Index row = first_row + u * step;
    if (row >= end) break;
    p0[u] = fb::load_packed<kVec>(T0 + ((before * Index(n1) + row) * Index(n2) + i));
  }

  // What is the same for every row.
  const fb::Vec<float, kVec> v1 = fb::unpack(p1);
  const fb::Vec<float, kVec> v2 = fb::unpack(p2);
  const fb::Vec<float, kVec> v3 = fb::unpack(p3);
  const fb::Vec<float, kVec> v4 = fb::unpack(p4);
  const fb::Vec<float, kVec> v5 = fb::unpack(p5);
  fb::Vec<float, kVec> v9;
  FUSEBUILD_UNROLL
  for (int k = 0; k < kVec; ++k) {
    const float t3 = v3[k];
    const float t8 = t3 + 0.001f;  // outer_normalization.yaml:10
    const float t9 = fb::rsqrt(t8);  // outer_normalization.yaml:10
    v9[k] = t9;
  }

  for (Index top = first_row; top < end;) {
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index row = top + u * step;
      if (row >= end) break;
      const fb::Vec<float, kVec> v0 = fb::unpack(p0[u]);
      fb::Vec<float, kVec> v12;
      fb::Vec<__half, kVec> v16;
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const float t1 = v1[k];
        const float t2 = v2[k];
        const float t4 = v4[k];
        const float t5 = v5[k];
        const float t9 = v9[k];
        const float t0 = v0[k];
        const float t6 = t0 - t2;  // centered, outer_normalization.yaml:8
        const float t10 = t6 * t9;  // outer_normalization.yaml:10
        const float t12 = t10 * t1;  // batch_norm, outer_normalization.yaml:10
        const float t13 = t0 - t4;  // outer_normalization.yaml:12
        const float t14 = fb::exp(t13);  // e, outer_normalization.yaml:12
        const float t15 = t14 / t5;  // middle_softmax, outer_normalization.yaml:13
        const __half t16 = fb::cast<__half>(t15);  // outer_normalization.yaml:19
        v12[k] = t12;
        v16[k] = t16;
      }
      fb::store(T12 + ((before * Index(n1) + row) * Index(n2) + i), v12);
      fb::store(T16 + ((before * Index(n1) + row) * Index(n2) + i), v16);
    }
    top += kUnroll * step;
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index row = top + u * step;
      if (row >= end) break;
      p0[u] = fb::load_packed<kVec>(T0 + ((before * Index(n1) + row) * Index(n2) + i));
    }
  }
}

FUSEBUILD_ENTRY(pointwise_rows_fe31f7e422b51a2b)
