// layernorm.yaml, segment 0: inner_persistent, variant tiled_vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 7: 6, 15: 8, 21: 13}
// schedule: threads=128 most=34 narrow=7 stages=4 copied=8 per_word=2 cached=[0] kept=[] resident=[1, 2] of_groups=[]
//   outer=0 of_rows=[7, 15] in_place=[[21, 0]] untiled=16 alone=8 loaded=[0, 1, 2] singly=[]
// launch: segment 0, tiled_vec8_int32 on sm_90: grid (M <= 512*gpu.multiprocessors)*(2 <= N)*(N <= 512)*(ceil_div(M*N,
//   1024*gpu.multiprocessors) <= 6)*ceil_div(M*(max((2*M <= 768*gpu.multiprocessors*((2 < N) + 1))*(1 < N), 16 < N) +
//   2*max((4*M <= 768*gpu.multiprocessors*((4 < N) + 1))*(2 < N), 32 < N) + 4*max((8*M <= 768*gpu.multiprocessors*((8 <
//   N) + 1))*(4 < N), 64 < N) + 8*max((16*M <= 768*gpu.multiprocessors*((16 < N) + 1))*(8 < N), 128 < N) + 16*max((32*M
//   <= 768*gpu.multiprocessors*((32 < N) + 1))*(16 < N), 256 < N) + 1), 128) + (-(M <= 512*gpu.multiprocessors)*(2 <=
//   N)*(N <= 512)*(ceil_div(M*N, 1024*gpu.multiprocessors) <= 6) + 1)*ceil_div(M, argument 12), 1, 1; block 128, 1, 1;
//   shared 16*((((argument 12)*N) // 8) + 2) + 8*(N + 1) + 8*(argument 12) bytes; overlaps what is before; given x,
//   weight, bias, mean, rstd, y, N, M, N, (M <= 512*gpu.multiprocessors)*(2 <= N)*(N <= 512)*(ceil_div(M*N,
//   1024*gpu.multiprocessors) <= 6)*(max((2*M <= 768*gpu.multiprocessors*((2 < N) + 1))*(1 < N), 16 < N) + 2*max((4*M
//   <= 768*gpu.multiprocessors*((4 < N) + 1))*(2 < N), 32 < N) + 4*max((8*M <= 768*gpu.multiprocessors*((8 < N) +
//   1))*(4 < N), 64 < N) + 8*max((16*M <= 768*gpu.multiprocessors*((16 < N) + 1))*(8 < N), 128 < N) + 16*max((32*M <=
//   768*gpu.multiprocessors*((32 < N) + 1))*(16 < N), 256 < N) + 1), (34 < N) + (68 < N) + (136 < N) + (272 < N) + (544
//   < N), 128*(N <= 1)*(7*(1536*gpu.multiprocessors < M) + 1) + (-(N <= 1) + 1)*(128*(0 < N) - 64*(34 < N) - 32*(68 <
//   N) - 16*(136 < N) - 8*(272 < N) - 4*(544 < N) + (384*gpu.multiprocessors < M)*(32*(68 < N) + 16*(136 < N) - 48*(272
//   < N)))*max(1, min((16384*((N <= 272) + 1)) // (2*N + 8), max(M // 2048, 128*(N <= 7)*ceil_div(M, 98304*max(1,
//   ceil_div(M, 768*max(1, (16384*((N <= 272) + 1)) // (2*N + 8))))), (128*(0 < N) - 64*(34 < N) - 32*(68 < N) -
//   16*(136 < N) - 8*(272 < N) - 4*(544 < N) + (384*gpu.multiprocessors < M)*(32*(68 < N) + 16*(136 < N) - 48*(272 <
//   N)))*ceil_div(M, 6*gpu.multiprocessors*(128*(0 < N) - 64*(34 < N) - 32*(68 < N) - 16*(136 < N) - 8*(272 < N) -
//   4*(544 < N) + (384*gpu.multiprocessors < M)*(32*(68 < N) + 16*(136 < N) - 48*(272 < N)))*max(1, ceil_div(M,
//   6*gpu.multiprocessors*max(128*(0 < N) - 64*(34 < N) - 32*(68 < N) - 16*(136 < N) - 8*(272 < N) - 4*(544 < N) +
//   (384*gpu.multiprocessors < M)*(32*(68 < N) + 16*(136 < N) - 48*(272 < N)), (16384*((N <= 272) + 1)) // (2*N +
//   8))))))) // (128*(0 < N) - 64*(34 < N) - 32*(68 < N) - 16*(136 < N) - 8*(272 < N) - 4*(544 < N) +
//   (384*gpu.multiprocessors < M)*(32*(68 < N) + 16*(136 < N) - 48*(272 < N)))), (128*(0 < N) - 64*(34 < N) - 32*(68 <
//   N) - 16*(136 < N) - 8*(272 < N) - 4*(544 < N) + (384*gpu.multiprocessors < M)*(32*(68 < N) + 16*(136 < N) - 48*(272
//   < N)))*(-1022*(N <= 272) + 1023), (N <= 1)*(7*(1536*gpu.multiprocessors < M) + 1); if N < 2146435072, aligned(x,
//   16), aligned(y, 16), 1 <= N, N <= 1088
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreads = 128;
constexpr int kVec = 4;  // neighbouring elements that a thread takes at a time
constexpr int kMost = 34;  // elements of a row that a thread holds
constexpr int kNarrow = 7;  // elements of the longest row that one thread has, whose number is a constant there
constexpr int kChunks = kMost / kVec + 2;  // vectors, and parts of one
constexpr int kPerWord = 2;  // elements of a word of shared memory
constexpr int kStages = 4;  // of a tile, one of which is computed while others are on their way
constexpr int kCopied = 8;  // neighbouring elements per access to global memory

FUSEBUILD_KERNEL(kThreads, 6)
inner_tiled_eaa41409c5731a78(
    const __nv_bfloat16* T0,  // x: bfloat16[M, N]
    const __nv_bfloat16* T1,  // weight: bfloat16[N]
    const __nv_bfloat16* T2,  // bias: bfloat16[N]
    float* __restrict__ T7,  // mean: float[M, 1]
    float* __restrict__ T15,  // rstd: float[M, 1]
    __nv_bfloat16* __restrict__ T21,  // y: bfloat16[M, N]
    int64_t s4,  // N
    int64_t n0,  // M
    int64_t n1,  // N
    int64_t without_tile,  // threads that a row without a tile has, or 0
    int64_t row_shift,  // 2 to it threads share a row
    int64_t tile_rows,  // rows of a tile
    int64_t turn_rows,  // of which a stage has a multiple
    int64_t alone_rows) {  // rows of one element that a thread has to itself, or 0
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const int64_t rows = n0;
  const Index columns = n1;

  if (alone_rows > 0) {  // a thread has rows of one element of its own
    constexpr int kVec = 1;
    constexpr Index col = 0;
    constexpr int kMostRows = 8;
    constexpr int kStep = kThreads;  // from one row of a thread to its next
    constexpr int64_t s4 = 1;  // N
    constexpr int64_t n1 = 1;  // N
    const auto take = [&](int64_t top, auto number) FUSEBUILD_INLINE {
      constexpr int kRows = decltype(number)::value;  // the first one of which is `top`
      __nv_bfloat16 c0[kRows];
      __nv_bfloat16 c1[kRows];
      __nv_bfloat16 c2[kRows];
      {
        FUSEBUILD_UNROLL
        for (int u = 0; u < kRows; ++u) {
          const int64_t row = top + u * kStep;
          const __nv_bfloat16* r0 = T0 + row * n1;
          const __nv_bfloat16* r1 = T1;
          const __nv_bfloat16* r2 = T2;
          c0[u] = fb::load<kVec>(r0 + col)[0];
          c1[u] = fb::load<kVec>(r1 + col)[0];
          c2[u] = fb::load<kVec>(r2 + col)[0];
        }
      }
      FUSEBUILD_UNROLL
      for (int u = 0; u < kRows; ++u) {
        const int64_t row = top + u * kStep;
        __nv_bfloat16* r21 = T21 + row * n1;
        float a5 = fb::Sum::identity<float>();
        {
          constexpr int k = 0;
          const fb::Vec<__nv_bfloat16, kVec> v0 = fb::splat<kVec>(c0[u]);
          const __nv_bfloat16 t0 = v0[k];
          const float t3 = fb::cast<float>(t0);  // xf, layernorm.yaml:12
          a5 = fb::Sum::combine(a5, t3);
        }
        const float t5 = a5;  // mean_sum, layernorm.yaml:13
        const float t6 = t5 / fb::cast<float>(s4);  // mean_reduced, layernorm.yaml:13
        float a10 = fb::Sum::identity<float>();
        {
          constexpr int k = 0;
          const fb::Vec<__nv_bfloat16, kVec> v0 = fb::splat<kVec>(c0[u]);
          const __nv_bfloat16 t0 = v0[k];
          const float t3 = fb::cast<float>(t0);  // xf, layernorm.yaml:12
          const float t8 = t3 - t6;  // var_centered, layernorm.yaml:13
          const float t9 = t8 * t8;  // var_squares, layernorm.yaml:13
          a10 = fb::Sum::combine(a10, t9);
        }
        const float t10 = a10;  // var_sum, layernorm.yaml:13
        const float t11 = t10 / fb::cast<float>(s4);  // var_reduced, layernorm.yaml:13
        const float t14 = t11 + 1e-05f;  // layernorm.yaml:14
        const float t15 = fb::rsqrt(t14);  // rstd, layernorm.yaml:14
        {
          constexpr int k = 0;
          const fb::Vec<__nv_bfloat16, kVec> v0 = fb::splat<kVec>(c0[u]);
          const fb::Vec<__nv_bfloat16, kVec> v1 = fb::splat<kVec>(c1[u]);
          const fb::Vec<__nv_bfloat16, kVec> v2 = fb::splat<kVec>(c2[u]);
          const __nv_bfloat16 t0 = v0[k];
          const __nv_bfloat16 t1 = v1[k];
          const __nv_bfloat16 t2 = v2[k];
          const float t3 = fb::cast<float>(t0);  // xf, layernorm.yaml:12
          const float t8 = t3 - t6;  // var_centered, layernorm.yaml:13
          const float t16 = t8 * t15;  // layernorm.yaml:15
          const float t18 = t16 * fb::cast<float>(t1);  // layernorm.yaml:15
          const float t20 = t18 + fb::cast<float>(t2);  // y, layernorm.yaml:15
          const __nv_bfloat16 t21 = fb::cast<__nv_bfloat16>(t20);  // layernorm.yaml:17
          r21[col] = t21;
        }
        T7[row] = t6;
        T15[row] = t15;
      }
    };
    const int64_t top = fb::block_x() * tile_rows + fb::thread_x();
    const bool has_all = alone_rows == kMostRows && top + (kMostRows - 1) * kStep < rows;
    if (has_all) {
      take(top, std::integral_constant<int, kMostRows>());
    } else {
      for (int u = 0; u < alone_rows && top + u * kStep < rows; ++u)
        take(top + u * kStep, std::integral_constant<int, 1>());
    }
    return;
  }

  if (without_tile > 0) {
    constexpr int kVec = 1, kChunks = 16;
    const int threads = int(without_tile);  // of a row, a power of two
    const int doublings = 31 - fb::leading_zeros(uint32_t(threads));
    const int lane = fb::thread_x() & (threads - 1);
    const int64_t wanted = fb::block_x() * (kThreads >> doublings) + (fb::thread_x() >> doublings);
    const bool active = wanted < rows;  // the last block's spare threads repeat a row and store nothing
    const int64_t row = active ? wanted : rows - 1;
    const __nv_bfloat16* r0 = T0 + row * n1;
    const __nv_bfloat16* r1 = T1;
    const __nv_bfloat16* r2 = T2;
    __nv_bfloat16* r21 = T21 + row * n1;
    fb::Packed<__nv_bfloat16, kVec> c0[kChunks];
    fb::Packed<__nv_bfloat16, kVec> c1[kChunks];
    fb::Packed<__nv_bfloat16, kVec> c2[kChunks];

    FUSEBUILD_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      const Index col = Index(c) * threads + lane;
      if (col >= columns) break;
      c0[c] = fb::load_packed<kVec>(r0 + col);
      c1[c] = fb::load_packed<kVec>(r1 + col);
      c2[c] = fb::load_packed<kVec>(r2 + col);
    }

    float a5 = fb::Sum::identity<float>();
    FUSEBUILD_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      const Index col = Index(c) * threads + lane;
      if (col >= columns) break;
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(c0[c]);
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t0 = v0[k];
        const float t3 = fb::cast<float>(t0);  // xf, layernorm.yaml:12
        a5 = fb::Sum::combine(a5, t3);
      }
    }
    fb::reduce_threads(threads, fb::accumulator<fb::Sum>(a5));
    const float t5 = a5;  // mean_sum, layernorm.yaml:13
    const float t6 = t5 / fb::cast<float>(s4);  // mean_reduced, layernorm.yaml:13

    float a10 = fb::Sum::identity<float>();
    FUSEBUILD_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      const Index col = Index(c) * threads + lane;
      if (col >= columns) break;
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(c0[c]);
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t0 = v0[k];
        const float t3 = fb::cast<float>(t0);  // xf, layernorm.yaml:12
        const float t8 = t3 - t6;  // var_centered, layernorm.yaml:13
        const float t9 = t8 * t8;  // var_squares, layernorm.yaml:13
        a10 = fb::Sum::combine(a10, t9);
      }
    }
    fb::reduce_threads(threads, fb::accumulator<fb::Sum>(a10));
    const float t10 = a10;  // var_sum, layernorm.yaml:13
    const float t11 = t10 / fb::cast<float>(s4);  // var_reduced, layernorm.yaml:13
    const float t14 = t11 + 1e-05f;  // layernorm.yaml:14
    const float t15 = fb::rsqrt(t14);  // rstd, layernorm.yaml:14

    if (!active) return;
    FUSEBUILD_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      const Index col = Index(c) * threads + lane;
      if (col >= columns) break;
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(c0[c]);
      const fb::Vec<__nv_bfloat16, kVec> v1 = fb::unpack(c1[c]);
      const fb::Vec<__nv_bfloat16, kVec> v2 = fb::unpack(c2[c]);
      fb::Vec<__nv_bfloat16, kVec> o21;
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t0 = v0[k];
        const __nv_bfloat16 t1 = v1[k];
        const __nv_bfloat16 t2 = v2[k];
        const float t3 = fb::cast<float>(t0);  // xf, layernorm.yaml:12
        const float t8 = t3 - t6;  // var_centered, layernorm.yaml:13
        const float t16 = t8 * t15;  // layernorm.yaml:15
        const float t18 = t16 * fb::cast<float>(t1);  // layernorm.yaml:15
        const float t20 = t18 + fb::cast<float>(t2);  // y, layernorm.yaml:15
        const __nv_bfloat16 t21 = fb::cast<__nv_bfloat16>(t20);  // layernorm.yaml:17
        o21[k] = t21;
      }
      fb::store(r21 + col, o21);
    }

    if (lane == 0) {
      T7[row] = t6;
      T15[row] = t15;
    }
    return;
  }

  const int threads = 1 << int(row_shift);  // of a row
  const int lane = fb::thread_x() & (threads - 1);
  const int count = fb::elements_of_thread<kPerWord>(columns, int(row_shift));
  const Index first = lane * count;  // column of the thread
  const int beside = fb::kWarpThreads >> int(row_shift);  // rows that a warp takes together
  const int stage_rows = fb::rows_of_stage<kStages>(int(tile_rows), int(turn_rows));
  const bool has_turns = stage_rows % (fb::kWarpThreads * kPerWord) == 0;  // so many that rows may be apart
  const int apart = has_turns ? fb::shift_of_rows<kPerWord>(columns, int(row_shift)) : 0;
  const int64_t top = fb::block_x() * tile_rows;
  const int depth = int(top + tile_rows < rows ? tile_rows : rows - top);  // rows of the tile
  const int64_t origin = top * columns, total = rows * columns;
  const Index begin = fb::shift_of<kCopied>(origin);  // elements of earlier rows in the tile's first vector
  const Index places = (Index(tile_rows) * columns / kCopied + 2) * kCopied;  // of a tile
  __nv_bfloat16* tile0 = fb::dynamic_shared<__nv_bfloat16>();
  float* columns1 = reinterpret_cast<float*>(tile0 + places);
  float* columns2 = columns1 + columns + columns % 2;
  float* rows7 = columns2 + columns + columns % 2;
  float* rows15 = rows7 + tile_rows;
  __nv_bfloat16* tile21 = tile0;

  FUSEBUILD_UNROLL_BY(1)
  for (int stage = 0; stage < kStages; ++stage) {
    const int before = fb::smaller(stage * stage_rows, depth);
    const Index from = stage > 0 ? begin + before * columns : 0;
    const Index to = begin + fb::smaller(before + stage_rows, depth) * columns;
    fb::copy_flat<kCopied, kThreads>(tile0, T0 + (origin - begin), to, total - (origin - begin), from);
    fb::end_copies();
  }
  fb::copy_columns<kThreads>(columns1, T1, columns);
  fb::copy_columns<kThreads>(columns2, T2, columns);

  int turn = fb::thread_x() / fb::kWarpThreads;  // of the warp, the next one
  FUSEBUILD_UNROLL_BY(1)
  for (int stage = 0; stage < kStages && stage * stage_rows < depth; ++stage) {
    const int from = stage * stage_rows, to = fb::smaller(from + stage_rows, depth);  // rows
    fb::wait_stage<kStages>(stage);
    fb::sync_block();
    if (columns <= kNarrow) {
      fb::with_constant<kNarrow>(columns, [&](auto number) FUSEBUILD_INLINE {
        constexpr int kMost = decltype(number)::value, kChunks = kMost / kVec + 2;
        constexpr Index first = 0;
        constexpr int lane = 0, held = kMost;
        constexpr int64_t s4 = kMost;  // N
        for (int own = from + fb::thread_x(); own < to; own += kThreads) {
          const int64_t row = top + own;
          const Index place = begin + own * kMost;
          const __nv_bfloat16* r0 = tile0 + place;
          __nv_bfloat16* r21 = tile21 + place;
          const float* r1 = columns1;
          const float* r2 = columns2;
          fb::Vec<float, kVec> c0[kChunks];
          fb::for_each_vector<kMost, kVec>(first, held, [&](int c, Index col, int present) FUSEBUILD_INLINE {
            c0[c] = fb::load_to_widen<float, kVec>(r0 + col, present);
          });

          float a5 = fb::Sum::identity<float>();
          fb::for_each_vector<kMost, kVec>(first, held, [&](int c, Index col, int present) FUSEBUILD_INLINE {
            fb::widen<__nv_bfloat16>(c0[c]);
            const fb::Vec<float, kVec> v0 = c0[c];
            FUSEBUILD_UNROLL
            for (int k = 0; k < kVec; ++k) {
              if (k >= present) break;
              const float t0 = v0[k];
              const float t3 = fb::cast<float>(t0);  // xf, layernorm.yaml:12
              a5 = fb::Sum::combine(a5, t3);
            }
          });
          const float t5 = a5;  // mean_sum, layernorm.yaml:13
          const float t6 = t5 / fb::cast<float>(s4);  // mean_reduced, layernorm.yaml:13

          float a10 = fb::Sum::identity<float>();
          fb::for_each_vector<kMost, kVec>(first, held, [&](int c, Index col, int present) FUSEBUILD_INLINE {
            const fb::Vec<float, kVec> v0 = c0[c];
            FUSEBUILD_UNROLL
            for (int k = 0; k < kVec; ++k) {
              if (k >= present) break;
              const float t0 = v0[k];
              const float t3 = fb::cast<float>(t0);  // xf, layernorm.yaml:12
              const float t8 = t3 - t6;  // var_centered, layernorm.yaml:13
              const float t9 = t8 * t8;  // var_squares, layernorm.yaml:13
              a10 = fb::Sum::combine(a10, t9);
            }
          });
          const float t10 = a10;  // var_sum, layernorm.yaml:13
          const float t11 = t10 / fb::cast<float>(s4);  // var_reduced, layernorm.yaml:13
          const float t14 = t11 + 1e-05f;  // layernorm.yaml:14
          const float t15 = fb::rsqrt(t14);  // rstd, layernorm.yaml:14

          fb::for_each_vector<kMost, kVec>(first, held, [&](int c, Index col, int present) FUSEBUILD_INLINE {
            const fb::Vec<float, kVec> v0 = c0[c];
            const fb::Vec<float, kVec> v1 = fb::load_pairs<kVec>(r1 + col, present);
            const fb::Vec<float, kVec> v2 = fb::load_pairs<kVec>(r2 + col, present);
            fb::Vec<__nv_bfloat16, kVec> o21;
            FUSEBUILD_UNROLL
            for (int k = 0; k < kVec; ++k) {
              if (k >= present) break;
              const float t0 = v0[k];
              const float t1 = v1[k];
              const float t2 = v2[k];
              const float t3 = fb::cast<float>(t0);  // xf, layernorm.yaml:12
              const float t8 = t3 - t6;  // var_centered, layernorm.yaml:13
              const float t16 = t8 * t15;  // layernorm.yaml:15
              const float t18 = t16 * fb::cast<float>(t1);  // layernorm.yaml:15
              const float t20 = t18 + fb::cast<float>(t2);  // y, layernorm.yaml:15
              const __nv_bfloat16 t21 = fb::cast<__nv_bfloat16>(t20);  // layernorm.yaml:17
              o21[k] = t21;
            }
            fb::store_present(r21 + col, o21, present);
          });
          rows7[row - top] = t6;
          rows15[row - top] = t15;
        }
      });
    } else {
      for (; turn * beside < from + stage_rows; turn += kThreads / fb::kWarpThreads) {
        if ((turn >> apart << apart) * beside >= depth) break;
        const int among = fb::thread_x() % fb::kWarpThreads >> int(row_shift);
        const int wanted = ((turn >> apart) * beside + among << apart) + (turn & (1 << apart) - 1);
        const bool active = wanted < depth;  // spare threads repeat a row, hold none of it and store nothing
        const int64_t row = top + (active ? wanted : depth - 1);
        const Index place = begin + Index(row - top) * columns;
        const int left = active && first < columns ? int(columns - first) : 0;
        const int held = left < count ? left : count;
        const __nv_bfloat16* r0 = tile0 + place;
        __nv_bfloat16* r21 = tile21 + place;
        const float* r1 = columns1;
        const float* r2 = columns2;
        fb::Vec<float, kVec> c0[kChunks];
        fb::for_each_vector<kMost, kVec>(first, held, [&](int c, Index col, int present) FUSEBUILD_INLINE {
          c0[c] = fb::load_to_widen<float, kVec>(r0 + col, present);
        });

        float a5 = fb::Sum::identity<float>();
        fb::for_each_vector<kMost, kVec>(first, held, [&](int c, Index col, int present) FUSEBUILD_INLINE {
          fb::widen<__nv_bfloat16>(c0[c]);
          const fb::Vec<float, kVec> v0 = c0[c];
          FUSEBUILD_UNROLL
          for (int k = 0; k < kVec; ++k) {
            if (k >= present) break;
            const float t0 = v0[k];
            const float t3 = fb::cast<float>(t0);  // xf, layernorm.yaml:12
            a5 = fb::Sum::combine(a5, t3);
          }
        });
        fb::reduce_threads(threads, fb::accumulator<fb::Sum>(a5));
        const float t5 = a5;  // mean_sum, layernorm.yaml:13
        const float t6 = t5 / fb::cast<float>(s4);  // mean_reduced, layernorm.yaml:13

        float a10 = fb::Sum::identity<float>();
        fb::for_each_vector<kMost, kVec>(first, held, [&](int c, Index col, int present) FUSEBUILD_INLINE {
          const fb::Vec<float, kVec> v0 = c0[c];
          FUSEBUILD_UNROLL
          for (int k = 0; k < kVec; ++k) {
            if (k >= present) break;
            const float t0 = v0[k];
            const float t3 = fb::cast<float>(t0);  // xf, layernorm.yaml:12
            const float t8 = t3 - t6;  // var_centered, layernorm.yaml:13
            const float t9 = t8 * t8;  // var_squares, layernorm.yaml:13
            a10 = fb::Sum::combine(a10, t9);
          }
        });
        fb::reduce_threads(threads, fb::accumulator<fb::Sum>(a10));
        const float t10 = a10;  // var_sum, layernorm.yaml:13
        const float t11 = t10 / fb::cast<float>(s4);  // var_reduced, layernorm.yaml:13
        const float t14 = t11 + 1e-05f;  // layernorm.yaml:14
        const float t15 = fb::rsqrt(t14);  // rstd, layernorm.yaml:14

        fb::for_each_vector<kMost, kVec>(first, held, [&](int c, Index col, int present) FUSEBUILD_INLINE {
          const fb::Vec<float, kVec> v0 = c0[c];
          const fb::Vec<float, kVec> v1 = fb::load_pairs<kVec>(r1 + col, present);
          const fb::Vec<float, kVec> v2 = fb::load_pairs<kVec>(r2 + col, present);
          fb::Vec<__nv_bfloat16, kVec> o21;
          FUSEBUILD_UNROLL
          for (int k = 0; k < kVec; ++k) {
            if (k >= present) break;
            const float t0 = v0[k];
            const float t1 = v1[k];
            const float t2 = v2[k];
            const float t3 = fb::cast<float>(t0);  // xf, layernorm.yaml:12
            const float t8 = t3 - t6;  // var_centered, layernorm.yaml:13
            const float t16 = t8 * t15;  // layernorm.yaml:15
            const float t18 = t16 * fb::cast<float>(t1);  // layernorm.yaml:15
            const float t20 = t18 + fb::cast<float>(t2);  // y, layernorm.yaml:15
            const __nv_bfloat16 t21 = fb::cast<__nv_bfloat16>(t20);  // layernorm.yaml:17
            o21[k] = t21;
          }
          fb::store_present(r21 + col, o21, present);
        });

        if (active && lane == 0) {
          rows7[row - top] = t6;
          rows15[row - top] = t15;
        }
      }
    }

    fb::sync_block();
    fb::store_flat<kCopied, kThreads>(T21 + (origin - begin), tile21, begin + from * columns, begin + to * columns);
  }
  fb::store_flat<1, kThreads>(T7 + top, rows7, 0, depth);
  fb::store_flat<1, kThreads>(T15 + top, rows15, 0, depth);
}

FUSEBUILD_ENTRY(inner_tiled_eaa41409c5731a78)
