// edged_tiles.yaml, segment 0: inner_persistent, variant N127_edged_tiles_vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 17: 11, 29: 24, 37: 49}
// schedule: threads.per_row=8 threads.rows=16 chunks=2 columns=127 turns=4 cached=[0, 1] kept=[] held=[3, 4]
//   in_place=[[29, 1], [37, 0]]
// launch: segment 0, N127_edged_tiles_vec8_int32 on sm_90: grid ceil_div(M, 16*max(1, min(4, M // 16384))), 1, 1; block
//   128, 1, 1; shared 16320*max(1, min(4, M // 16384)) bytes; overlaps what is before; given x, y, offset, weight,
//   bias, per_row, v, normed, above, M, 16*max(1, min(4, M // 16384)); if N == 127, aligned(x, 16), aligned(y, 16),
//   aligned(offset, 16), aligned(normed, 16), aligned(above, 16), aligned(weight, 16), aligned(bias, 16)
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreadsPerRow = 8;
constexpr int kGroups = 16;  // of as many threads; so many rows a block takes at a time
constexpr int kThreads = kThreadsPerRow * kGroups;
constexpr int kVec = 8;  // neighbouring elements per access
constexpr int kChunks = 2;  // vectors of a row that a thread has
constexpr int kStep = kThreadsPerRow * kVec;  // columns from one of them to the next

FUSEBUILD_KERNEL(kThreads, 3)
inner_edged_tiles_295d2b972d3dcdb0(
    const __half* T0,  // x: half[M, N]
    const float* T1,  // y: float[M, N]
    const __half* T2,  // offset: half[M, N]
    const __nv_bfloat16* T3,  // weight: bfloat16[N]
    const float* T4,  // bias: float[N]
    const float* T5,  // per_row: float[M, 1]
    float* T17,  // v: float[M, 1]
    float* T29,  // normed: float[M, N]
    __half* T37,  // above: half[M, N]
    int64_t n0,  // M
    int64_t tile_rows) {  // rows of a tile
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  constexpr int64_t s9 = 127;  // N
  const int64_t rows = n0;
  constexpr Index columns = 127;
  const int lane = fb::thread_x() % kThreadsPerRow, group = fb::thread_x() / kThreadsPerRow;
  const int64_t top = fb::block_x() * tile_rows;
  const int depth = int(top + tile_rows < rows ? tile_rows : rows - top);  // rows of the tile
  const int64_t origin = top * columns, total = rows * columns;
  const Index end = depth * columns;
  float* tile1 = fb::dynamic_shared<float>();
  float* results17 = tile1 + tile_rows * columns;
  __half* tile0 = reinterpret_cast<__half*>(results17 + tile_rows);
  __half* tile2 = tile0 + tile_rows * columns;
  float* tile29 = tile1;
  __half* tile37 = tile0;

  fb::copy_flat<kVec, kThreads>(tile0, T0 + origin, end, total - origin);
  fb::copy_flat<kVec, kThreads>(tile1, T1 + origin, end, total - origin);
  fb::copy_flat<kVec, kThreads>(tile2, T2 + origin, end, total - origin);
  fb::end_copies();

  // A group's rows begin at the same place of a vector: its threads have the same columns of all of them.
  const fb::Edges<kVec> edges(group * columns, columns);
  const Index start = edges.before + lane * kVec;  // of the thread's first vector
  const bool has_edge = lane < edges.count();  // an element beside the row's vectors is the thread's
  const Index edge = has_edge ? edges.column(lane) : 0;
  fb::Packed<__nv_bfloat16, kVec> h3[kChunks];
  fb::Packed<float, kVec> h4[kChunks];
  __nv_bfloat16 e3{};
  float e4{};
  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = start + c * kStep;
    if (col + kVec > columns) break;
    h3[c] = fb::pack(fb::load_cut_within<kVec>(T3, col, columns));
    h4[c] = fb::pack(fb::load_cut_within<kVec>(T4, col, columns));
  }
  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = start + c * kStep;
    if (col + kVec > columns) break;
    if (!fb::is_within<kVec>(T3, col, columns)) h3[c] = fb::pack(fb::load_elements<kVec>(T3 + col));
    if (!fb::is_within<kVec>(T4, col, columns)) h4[c] = fb::pack(fb::load_elements<kVec>(T4 + col));
  }
  if (has_edge) {
    e3 = T3[edge];
    e4 = T4[edge];
  }
  fb::wait_copies<0>();
  fb::sync_block();

  FUSEBUILD_UNROLL_BY(1)
  for (int first = 0; first < depth; first += kGroups) {
    const int place = first + group;
    const bool active = place < depth;  // spare threads have nothing of a row
    const int64_t row = top + (active ? place : depth - 1);
    const float t5 = T5[row];  // per_row
    const __half* r0 = tile0 + place * columns;
    const float* r1 = tile1 + place * columns;
    const __half* r2 = tile2 + place * columns;
    float* r29 = tile29 + place * columns;
    __half* r37 = tile37 + place * columns;
    fb::Packed<__half, kVec> c0[kChunks];
    fb::Packed<float, kVec> c1[kChunks];
    __half e0{};
    float e1{};
    FUSEBUILD_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      const Index col = start + c * kStep;
      if (!active || col + kVec > columns) break;
      c0[c] = fb::load_shared_packed<kVec>(r0 + col);
      c1[c] = fb::load_shared_packed<kVec>(r1 + col);
    }
    if (active && has_edge) {
      e0 = r0[edge];
      e1 = r1[edge];
    }

    float a6 = fb::Min::identity<float>();
    float a10 = fb::Sum::identity<float>();
    FUSEBUILD_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      const Index col = start + c * kStep;
      if (!active || col + kVec > columns) break;
      const fb::Vec<__half, kVec> v0 = fb::unpack(c0[c]);
      const fb::Vec<float, kVec> v1 = fb::unpack(c1[c]);
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __half t0 = v0[k];
        const float t1 = v1[k];
        const float t8 = t1 * t5;  // edged_tiles.yaml:18
        a6 = fb::Min::combine(a6, fb::cast<float>(t0));
        a10 = fb::Sum::combine(a10, t8);
      }
    }
    if (active && has_edge) {
      const __half t0 = e0;
      const float t1 = e1;
      const float t8 = t1 * t5;  // edged_tiles.yaml:18
      a6 = fb::Min::combine(a6, fb::cast<float>(t0));
      a10 = fb::Sum::combine(a10, t8);
    }
    fb::reduce_row<kThreadsPerRow, kGroups>(fb::accumulator<fb::Min>(a6), fb::accumulator<fb::Sum>(a10));
    fb::stay_packed(c0);
    fb::stay_packed(c1);
    fb::stay_packed(h3);
    fb::stay_packed(h4);
    const float t6 = a6;  // low_min, edged_tiles.yaml:17
    const float t10 = a10;  // m_sum, edged_tiles.yaml:18
    const float t11 = t10 / fb::cast<float>(s9);  // m_reduced, edged_tiles.yaml:18

    float a15 = fb::Sum::identity<float>();
    FUSEBUILD_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      const Index col = start + c * kStep;
      if (!active || col + kVec > columns) break;
      const fb::Vec<float, kVec> v1 = fb::unpack(c1[c]);
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const float t1 = v1[k];
        const float t8 = t1 * t5;  // edged_tiles.yaml:18
        const float t13 = t8 - t11;  // v_centered, edged_tiles.yaml:18
        const float t14 = t13 * t13;  // v_squares, edged_tiles.yaml:18
        a15 = fb::Sum::combine(a15, t14);
      }
    }
    if (active && has_edge) {
      const float t1 = e1;
      const float t8 = t1 * t5;  // edged_tiles.yaml:18
      const float t13 = t8 - t11;  // v_centered, edged_tiles.yaml:18
      const float t14 = t13 * t13;  // v_squares, edged_tiles.yaml:18
      a15 = fb::Sum::combine(a15, t14);
    }
    fb::reduce_row<kThreadsPerRow, kGroups>(fb::accumulator<fb::Sum>(a15));
    fb::stay_packed(c0);
    fb::stay_packed(c1);
    fb::stay_packed(h3);
    fb::stay_packed(h4);
    const float t15 = a15;  // v_sum, edged_tiles.yaml:18
    const float t16 = t15 / fb::cast<float>(s9);  // v_reduced, edged_tiles.yaml:18
    const float t23 = t16 + 0.01f;  // edged_tiles.yaml:20
    const float t24 = fb::rsqrt(t23);  // edged_tiles.yaml:20

    FUSEBUILD_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      const Index col = start + c * kStep;
      if (!active || col + kVec > columns) break;
      const fb::Vec<__half, kVec> v0 = fb::unpack(c0[c]);
      const fb::Vec<float, kVec> v1 = fb::unpack(c1[c]);
      const fb::Vec<__half, kVec> v2 = fb::load_shared<kVec>(r2 + col);
      const fb::Vec<__nv_bfloat16, kVec> v3 = fb::unpack(h3[c]);
      const fb::Vec<float, kVec> v4 = fb::unpack(h4[c]);
      fb::Vec<float, kVec> o29;
      fb::Vec<__half, kVec> o37;
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __half t0 = v0[k];
        const float t1 = v1[k];
        const __half t2 = v2[k];
        const __nv_bfloat16 t3 = v3[k];
        const float t4 = v4[k];
        const float t8 = t1 * t5;  // edged_tiles.yaml:18
        const float t13 = t8 - t11;  // v_centered, edged_tiles.yaml:18
        const int64_t t20 = int64_t(col + k);  // edged_tiles.yaml:19
        const float t21 = fb::cast<float>(t20);  // place, edged_tiles.yaml:19
        const float t25 = t13 * t24;  // edged_tiles.yaml:20
        const float t27 = t25 * fb::cast<float>(t3);  // edged_tiles.yaml:20
        const float t29 = t27 + t4;  // normed, edged_tiles.yaml:20
        const float t30 = fb::cast<float>(t0) - t6;  // edged_tiles.yaml:21
        const float t31 = t30 * t4;  // edged_tiles.yaml:21
        const float t32 = t31 + fb::cast<float>(t2);  // edged_tiles.yaml:21
        const float t34 = t21 / 8192.0f;  // edged_tiles.yaml:21
        const float t36 = t32 + t34;  // above, edged_tiles.yaml:21
        const __half t37 = fb::cast<__half>(t36);  // edged_tiles.yaml:30
        o29[k] = t29;
        o37[k] = t37;
      }
      fb::store_shared(r29 + col, o29);
      fb::store_shared(r37 + col, o37);
    }
    if (active && has_edge) {
      const __half e2 = r2[edge];
      const __half t0 = e0;
      const float t1 = e1;
      const __half t2 = e2;
      const __nv_bfloat16 t3 = e3;
      const float t4 = e4;
      const float t8 = t1 * t5;  // edged_tiles.yaml:18
      const float t13 = t8 - t11;  // v_centered, edged_tiles.yaml:18
      const int64_t t20 = int64_t(edge);  // edged_tiles.yaml:19
      const float t21 = fb::cast<float>(t20);  // place, edged_tiles.yaml:19
      const float t25 = t13 * t24;  // edged_tiles.yaml:20
      const float t27 = t25 * fb::cast<float>(t3);  // edged_tiles.yaml:20
      const float t29 = t27 + t4;  // normed, edged_tiles.yaml:20
      const float t30 = fb::cast<float>(t0) - t6;  // edged_tiles.yaml:21
      const float t31 = t30 * t4;  // edged_tiles.yaml:21
      const float t32 = t31 + fb::cast<float>(t2);  // edged_tiles.yaml:21
      const float t34 = t21 / 8192.0f;  // edged_tiles.yaml:21
      const float t36 = t32 + t34;  // above, edged_tiles.yaml:21
      const __half t37 = fb::cast<__half>(t36);  // edged_tiles.yaml:30
      r29[edge] = t29;
      r37[edge] = t37;
    }

    if (active && lane == 0) {
      results17[place] = t16;
    }
  }

  fb::sync_block();
  fb::store_flat<kVec, kThreads>(T29 + origin, tile29, 0, end);
  fb::store_flat<kVec, kThreads>(T37 + origin, tile37, 0, end);
  fb::store_flat<1, kThreads>(T17 + top, results17, 0, depth);
}

FUSEBUILD_ENTRY(inner_edged_tiles_295d2b972d3dcdb0)
