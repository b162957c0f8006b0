// crossing_rows.yaml, segment 0: inner_persistent, variant tiled_vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 20: 16, 21: 22}
// schedule: threads=128 most=34 narrow=7 stages=1 copied=8 per_word=2 cached=[0] kept=[] resident=[] of_groups=[]
//   outer=0 of_rows=[20] in_place=[[21, 0]] untiled=16 alone=8 loaded=[0] singly=[1, 2]
// launch: segment 0, tiled_vec8_int32 on sm_90: grid (N*G <= 512*gpu.multiprocessors)*(2 <= K*H*W)*(K*H*W <=
//   512)*(ceil_div(N*G*K*H*W, 1024*gpu.multiprocessors) <= 16)*ceil_div(N*G*(max((2*N*G <= 640*gpu.multiprocessors*((2
//   < K*H*W) + 1))*(1 < K*H*W), 16 < K*H*W) + 2*max((4*N*G <= 640*gpu.multiprocessors*((4 < K*H*W) + 1))*(2 < K*H*W),
//   32 < K*H*W) + 4*max((8*N*G <= 640*gpu.multiprocessors*((8 < K*H*W) + 1))*(4 < K*H*W), 64 < K*H*W) + 8*max((16*N*G
//   <= 640*gpu.multiprocessors*((16 < K*H*W) + 1))*(8 < K*H*W), 128 < K*H*W) + 16*max((32*N*G <=
//   640*gpu.multiprocessors*((32 < K*H*W) + 1))*(16 < K*H*W), 256 < K*H*W) + 1), 128) + (-(N*G <=
//   512*gpu.multiprocessors)*(2 <= K*H*W)*(K*H*W <= 512)*(ceil_div(N*G*K*H*W, 1024*gpu.multiprocessors) <= 16) +
//   1)*ceil_div(N*G, argument 14), 1, 1; block 128, 1, 1; shared 16*((((argument 14)*K*H*W) // 8) + 2) + 4*(argument
//   14) bytes; overlaps what is before; given x, weight, bias, spread, normed, K*H*W, N, G, K, H, W, (N*G <=
//   512*gpu.multiprocessors)*(2 <= K*H*W)*(K*H*W <= 512)*(ceil_div(N*G*K*H*W, 1024*gpu.multiprocessors) <=
//   16)*(max((2*N*G <= 640*gpu.multiprocessors*((2 < K*H*W) + 1))*(1 < K*H*W), 16 < K*H*W) + 2*max((4*N*G <=
//   640*gpu.multiprocessors*((4 < K*H*W) + 1))*(2 < K*H*W), 32 < K*H*W) + 4*max((8*N*G <= 640*gpu.multiprocessors*((8 <
//   K*H*W) + 1))*(4 < K*H*W), 64 < K*H*W) + 8*max((16*N*G <= 640*gpu.multiprocessors*((16 < K*H*W) + 1))*(8 < K*H*W),
//   128 < K*H*W) + 16*max((32*N*G <= 640*gpu.multiprocessors*((32 < K*H*W) + 1))*(16 < K*H*W), 256 < K*H*W) + 1), (34 <
//   K*H*W) + (68 < K*H*W) + (136 < K*H*W) + (272 < K*H*W) + (544 < K*H*W), 128*(K*H*W <=
//   1)*(7*(1280*gpu.multiprocessors < N*G) + 1) + (-(K*H*W <= 1) + 1)*(128*(0 < K*H*W) - 64*(34 < K*H*W) - 32*(68 <
//   K*H*W) - 16*(136 < K*H*W) - 8*(272 < K*H*W) - 4*(544 < K*H*W) + (384*gpu.multiprocessors < N*G)*(32*(68 < K*H*W) +
//   16*(136 < K*H*W) - 48*(272 < K*H*W)))*max(1, min(32768 // (2*K*H*W + 4), max((N*G) // 2048, 128*(K*H*W <=
//   7)*ceil_div(N*G, 98304*max(1, ceil_div(N*G, 768*max(1, 32768 // (2*K*H*W + 4))))), (128*(0 < K*H*W) - 64*(34 <
//   K*H*W) - 32*(68 < K*H*W) - 16*(136 < K*H*W) - 8*(272 < K*H*W) - 4*(544 < K*H*W) + (384*gpu.multiprocessors <
//   N*G)*(32*(68 < K*H*W) + 16*(136 < K*H*W) - 48*(272 < K*H*W)))*ceil_div(N*G, 5*gpu.multiprocessors*(128*(0 < K*H*W)
//   - 64*(34 < K*H*W) - 32*(68 < K*H*W) - 16*(136 < K*H*W) - 8*(272 < K*H*W) - 4*(544 < K*H*W) +
//   (384*gpu.multiprocessors < N*G)*(32*(68 < K*H*W) + 16*(136 < K*H*W) - 48*(272 < K*H*W)))*max(1, ceil_div(N*G,
//   5*gpu.multiprocessors*max(128*(0 < K*H*W) - 64*(34 < K*H*W) - 32*(68 < K*H*W) - 16*(136 < K*H*W) - 8*(272 < K*H*W)
//   - 4*(544 < K*H*W) + (384*gpu.multiprocessors < N*G)*(32*(68 < K*H*W) + 16*(136 < K*H*W) - 48*(272 < K*H*W)), 16384
//   // (2*K*H*W + 4))))))) // (128*(0 < K*H*W) - 64*(34 < K*H*W) - 32*(68 < K*H*W) - 16*(136 < K*H*W) - 8*(272 < K*H*W)
//   - 4*(544 < K*H*W) + (384*gpu.multiprocessors < N*G)*(32*(68 < K*H*W) + 16*(136 < K*H*W) - 48*(272 < K*H*W)))),
//   1023*(128*(0 < K*H*W) - 64*(34 < K*H*W) - 32*(68 < K*H*W) - 16*(136 < K*H*W) - 8*(272 < K*H*W) - 4*(544 < K*H*W) +
//   (384*gpu.multiprocessors < N*G)*(32*(68 < K*H*W) + 16*(136 < K*H*W) - 48*(272 < K*H*W))), (K*H*W <=
//   1)*(7*(1280*gpu.multiprocessors < N*G) + 1); if K*H*W < 2146435072, aligned(x, 16), aligned(normed, 16), G <
//   2146435072, 1 <= K*H*W, K*H*W <= 1088
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreads = 128;
constexpr int kVec = 4;  // neighbouring elements that a thread takes at a time
constexpr int kMost = 34;  // elements of a row that a thread holds
constexpr int kNarrow = 7;  // elements of the longest row that one thread has, whose number is a constant there
constexpr int kChunks = kMost / kVec + 2;  // vectors, and parts of one
constexpr int kPerWord = 2;  // elements of a word of shared memory
constexpr int kStages = 1;  // of a tile, one of which is computed while others are on their way
constexpr int kCopied = 8;  // neighbouring elements per access to global memory

FUSEBUILD_KERNEL(kThreads, 5)
inner_tiled_d67935e6d4224c98(
    const __nv_bfloat16* T0,  // x: bfloat16[N, G, K, H, W]
    const __nv_bfloat16* T1,  // weight: bfloat16[G, K, 1, 1]
    const float* T2,  // bias: float[1, K, H, 1]
    float* __restrict__ T20,  // spread: float[N, G]
    __nv_bfloat16* __restrict__ T21,  // normed: bfloat16[N, G, K, H, W]
    int64_t s3,  // K*H*W
    int64_t n0,  // N
    int64_t n1,  // G
    int64_t n2,  // K
    int64_t n3,  // H
    int64_t n4,  // W
    int64_t without_tile,  // threads that a row without a tile has, or 0
    int64_t row_shift,  // 2 to it threads share a row
    int64_t tile_rows,  // rows of a tile
    int64_t turn_rows,  // of which a stage has a multiple
    int64_t alone_rows) {  // rows of one element that a thread has to itself, or 0
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const int64_t rows = n0 * n1;
  const Index columns = n2 * n3 * n4;

  if (alone_rows > 0) {  // a thread has rows of one element of its own
    constexpr int kVec = 1;
    constexpr Index col = 0;
    constexpr int kMostRows = 8;
    constexpr int kStep = kThreads;  // from one row of a thread to its next
    constexpr int64_t s3 = 1;  // K*H*W
    constexpr int64_t n2 = 1;  // K
    constexpr int64_t n3 = 1;  // H
    constexpr int64_t n4 = 1;  // W
    const auto take = [&](int64_t top, auto number) FUSEBUILD_INLINE {
      constexpr int kRows = decltype(number)::value;  // the first one of which is `top`
      __nv_bfloat16 c0[kRows];
      __nv_bfloat16 e1[kRows];
      float e2[kRows];
      {
        fb::SteppingRow<kStep, 1> at(top, n1);
        FUSEBUILD_UNROLL
        for (int u = 0; u < kRows; ++u) {
          const int64_t row = top + u * kStep;
          const int64_t i1 = at[1];
          const __nv_bfloat16* r0 = T0 + row * n2 * n3 * n4;
          const __nv_bfloat16* r1 = T1 + i1 * n2;
          const float* r2 = T2;
          const Index col_over_4 = col / Index(n4);
          const Index i3 = col_over_4 % Index(n3);
          const Index i2 = col_over_4 / Index(n3);
          c0[u] = fb::load<kVec>(r0 + col)[0];
          e1[u] = r1[i2];
          e2[u] = r2[i2 * n3 + i3];
          at.step();
        }
      }
      FUSEBUILD_UNROLL
      for (int u = 0; u < kRows; ++u) {
        const int64_t row = top + u * kStep;
        __nv_bfloat16* r21 = T21 + row * n2 * n3 * n4;
        float a4 = fb::Sum::identity<float>();
        {
          constexpr int k = 0;
          const fb::Vec<__nv_bfloat16, kVec> v0 = fb::splat<kVec>(c0[u]);
          const __nv_bfloat16 t0 = v0[k];
          a4 = fb::Sum::combine(a4, fb::cast<float>(t0));
        }
        const float t4 = a4;  // mean_sum, crossing_rows.yaml:14
        const float t5 = t4 / fb::cast<float>(s3);  // mean_reduced, crossing_rows.yaml:14
        float a9 = fb::Sum::identity<float>();
        {
          constexpr int k = 0;
          const fb::Vec<__nv_bfloat16, kVec> v0 = fb::splat<kVec>(c0[u]);
          const __nv_bfloat16 t0 = v0[k];
          const float t7 = fb::cast<float>(t0) - t5;  // var_centered, crossing_rows.yaml:14
          const float t8 = t7 * t7;  // var_squares, crossing_rows.yaml:14
          a9 = fb::Sum::combine(a9, t8);
        }
        const float t9 = a9;  // var_sum, crossing_rows.yaml:14
        const float t10 = t9 / fb::cast<float>(s3);  // var_reduced, crossing_rows.yaml:14
        const float t13 = t10 + 0.01f;  // crossing_rows.yaml:15
        const float t14 = fb::rsqrt(t13);  // crossing_rows.yaml:15
        {
          constexpr int k = 0;
          const fb::Vec<__nv_bfloat16, kVec> v0 = fb::splat<kVec>(c0[u]);
          const __nv_bfloat16 t1 = e1[u];  // weight
          const float t2 = e2[u];  // bias
          const __nv_bfloat16 t0 = v0[k];
          const float t7 = fb::cast<float>(t0) - t5;  // var_centered, crossing_rows.yaml:14
          const float t15 = t7 * t14;  // crossing_rows.yaml:15
          const float t17 = t15 * fb::cast<float>(t1);  // crossing_rows.yaml:15
          const float t19 = t17 + t2;  // normed, crossing_rows.yaml:15
          const __nv_bfloat16 t21 = fb::cast<__nv_bfloat16>(t19);  // crossing_rows.yaml:20
          r21[col] = t21;
        }
        T20[row] = t10;
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
    const fb::QuickDivisor size1(n1);
    const fb::QuickDivisor size3(n3);
    const fb::QuickDivisor size4(n4);
    const int64_t i1 = row % size1;
    const __nv_bfloat16* r0 = T0 + row * n2 * n3 * n4;
    const __nv_bfloat16* r1 = T1 + i1 * n2;
    const float* r2 = T2;
    __nv_bfloat16* r21 = T21 + row * n2 * n3 * n4;
    fb::forget_origin(r1);
    fb::forget_origin(r2);
    fb::Packed<__nv_bfloat16, kVec> c0[kChunks];
    __nv_bfloat16 e1[kChunks];
    float e2[kChunks];

    FUSEBUILD_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      const Index col = Index(c) * threads + lane;
      if (col >= columns) break;
      const Index col_over_4 = col / size4;
      const Index i3 = col_over_4 % size3;
      const Index i2 = col_over_4 / size3;
      c0[c] = fb::load_packed<kVec>(r0 + col);
      e1[c] = r1[i2];
      e2[c] = r2[i2 * n3 + i3];
    }

    float a4 = fb::Sum::identity<float>();
    FUSEBUILD_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      const Index col = Index(c) * threads + lane;
      if (col >= columns) break;
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(c0[c]);
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t0 = v0[k];
        a4 = fb::Sum::combine(a4, fb::cast<float>(t0));
      }
    }
    fb::reduce_threads(threads, fb::accumulator<fb::Sum>(a4));
    const float t4 = a4;  // mean_sum, crossing_rows.yaml:14
    const float t5 = t4 / fb::cast<float>(s3);  // mean_reduced, crossing_rows.yaml:14

    float a9 = fb::Sum::identity<float>();
    FUSEBUILD_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      const Index col = Index(c) * threads + lane;
      if (col >= columns) break;
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(c0[c]);
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t0 = v0[k];
        const float t7 = fb::cast<float>(t0) - t5;  // var_centered, crossing_rows.yaml:14
        const float t8 = t7 * t7;  // var_squares, crossing_rows.yaml:14
        a9 = fb::Sum::combine(a9, t8);
      }
    }
    fb::reduce_threads(threads, fb::accumulator<fb::Sum>(a9));
    const float t9 = a9;  // var_sum, crossing_rows.yaml:14
    const float t10 = t9 / fb::cast<float>(s3);  // var_reduced, crossing_rows.yaml:14
    const float t13 = t10 + 0.01f;  // crossing_rows.yaml:15
    const float t14 = fb::rsqrt(t13);  // crossing_rows.yaml:15

    if (!active) return;
    FUSEBUILD_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      const Index col = Index(c) * threads + lane;
      if (col >= columns) break;
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(c0[c]);
      fb::Vec<__nv_bfloat16, kVec> o21;
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t0 = v0[k];
        const __nv_bfloat16 t1 = e1[c];  // weight
        const float t2 = e2[c];  // bias
        const float t7 = fb::cast<float>(t0) - t5;  // var_centered, crossing_rows.yaml:14
        const float t15 = t7 * t14;  // crossing_rows.yaml:15
        const float t17 = t15 * fb::cast<float>(t1);  // crossing_rows.yaml:15
        const float t19 = t17 + t2;  // normed, crossing_rows.yaml:15
        const __nv_bfloat16 t21 = fb::cast<__nv_bfloat16>(t19);  // crossing_rows.yaml:20
        o21[k] = t21;
      }
      fb::store(r21 + col, o21);
    }

    if (lane == 0) {
      T20[row] = t10;
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
  float* rows20 = reinterpret_cast<float*>(tile0 + places);
  __nv_bfloat16* tile21 = tile0;

  FUSEBUILD_UNROLL_BY(1)
  for (int stage = 0; stage < kStages; ++stage) {
    const int before = fb::smaller(stage * stage_rows, depth);
    const Index from = stage > 0 ? begin + before * columns : 0;
    const Index to = begin + fb::smaller(before + stage_rows, depth) * columns;
    fb::copy_flat<kCopied, kThreads>(tile0, T0 + (origin - begin), to, total - (origin - begin), from);
    fb::end_copies();
  }
  const fb::QuickDivisor size3(n3);
  const fb::RunPieces<Index> pieces(first, columns, count, n4);
  const fb::NearDivisor size1(top, n1);

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
        constexpr int64_t s3 = kMost;  // K*H*W
        for (int own = from + fb::thread_x(); own < to; own += kThreads) {
          const int64_t row = top + own;
          const Index place = begin + own * kMost;
          const int64_t i1 = row % size1;
          const __nv_bfloat16* r1 = T1 + i1 * n2;
          const float* r2 = T2;
          fb::forget_origin(r1);
          fb::forget_origin(r2);
          const __nv_bfloat16* r0 = tile0 + place;
          __nv_bfloat16* r21 = tile21 + place;
          const auto load1 = [&](Index piece) FUSEBUILD_INLINE {  // weight
            const Index i2 = piece / size3;
            return fb::cast<float>(r1[i2]);
          };
          const auto run1 = pieces.load(held, load1);
          const auto load2 = [&](Index piece) FUSEBUILD_INLINE {  // bias
            return fb::cast<float>(r2[piece]);
          };
          const auto run2 = pieces.load(held, load2);
          fb::Vec<float, kVec> c0[kChunks];
          fb::for_each_vector<kMost, kVec>(first, held, [&](int c, Index col, int present) FUSEBUILD_INLINE {
            c0[c] = fb::load_to_widen<float, kVec>(r0 + col, present);
          });

          float a4 = fb::Sum::identity<float>();
          fb::for_each_vector<kMost, kVec>(first, held, [&](int c, Index col, int present) FUSEBUILD_INLINE {
            fb::widen<__nv_bfloat16>(c0[c]);
            const fb::Vec<float, kVec> v0 = c0[c];
            FUSEBUILD_UNROLL
            for (int k = 0; k < kVec; ++k) {
              if (k >= present) break;
              const float t0 = v0[k];
              a4 = fb::Sum::combine(a4, fb::cast<float>(t0));
            }
          });
          const float t4 = a4;  // mean_sum, crossing_rows.yaml:14
          const float t5 = t4 / fb::cast<float>(s3);  // mean_reduced, crossing_rows.yaml:14

          float a9 = fb::Sum::identity<float>();
          fb::for_each_vector<kMost, kVec>(first, held, [&](int c, Index col, int present) FUSEBUILD_INLINE {
            const fb::Vec<float, kVec> v0 = c0[c];
            FUSEBUILD_UNROLL
            for (int k = 0; k < kVec; ++k) {
              if (k >= present) break;
              const float t0 = v0[k];
              const float t7 = fb::cast<float>(t0) - t5;  // var_centered, crossing_rows.yaml:14
              const float t8 = t7 * t7;  // var_squares, crossing_rows.yaml:14
              a9 = fb::Sum::combine(a9, t8);
            }
          });
          const float t9 = a9;  // var_sum, crossing_rows.yaml:14
          const float t10 = t9 / fb::cast<float>(s3);  // var_reduced, crossing_rows.yaml:14
          const float t13 = t10 + 0.01f;  // crossing_rows.yaml:15
          const float t14 = fb::rsqrt(t13);  // crossing_rows.yaml:15

          fb::for_each_vector<kMost, kVec>(first, held, [&](int c, Index col, int present) FUSEBUILD_INLINE {
            const fb::Vec<float, kVec> v0 = c0[c];
            fb::Vec<float, kVec> v1 = {};
            fb::Vec<float, kVec> v2 = {};
            if (pieces.are_two()) {
              v1 = fb::vector_of<kVec>(run1, pieces.left(col - first));
              v2 = fb::vector_of<kVec>(run2, pieces.left(col - first));
            } else {
              pieces.each<kVec>(col - first, present,
                  [&](int k, Index piece) FUSEBUILD_INLINE { v1[k] = load1(piece); v2[k] = load2(piece); });
            }
            fb::Vec<__nv_bfloat16, kVec> o21;
            FUSEBUILD_UNROLL
            for (int k = 0; k < kVec; ++k) {
              if (k >= present) break;
              const float t0 = v0[k];
              const float t1 = v1[k];
              const float t2 = v2[k];
              const float t7 = fb::cast<float>(t0) - t5;  // var_centered, crossing_rows.yaml:14
              const float t15 = t7 * t14;  // crossing_rows.yaml:15
              const float t17 = t15 * fb::cast<float>(t1);  // crossing_rows.yaml:15
              const float t19 = t17 + t2;  // normed, crossing_rows.yaml:15
              const __nv_bfloat16 t21 = fb::cast<__nv_bfloat16>(t19);  // crossing_rows.yaml:20
              o21[k] = t21;
            }
            fb::store_present(r21 + col, o21, present);
          });
          rows20[row - top] = t10;
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
        const int64_t i1 = row % size1;
        const __nv_bfloat16* r1 = T1 + i1 * n2;
        const float* r2 = T2;
        fb::forget_origin(r1);
        fb::forget_origin(r2);
        const __nv_bfloat16* r0 = tile0 + place;
        __nv_bfloat16* r21 = tile21 + place;
        const auto load1 = [&](Index piece) FUSEBUILD_INLINE {  // weight
          const Index i2 = piece / size3;
          return fb::cast<float>(r1[i2]);
        };
        const auto run1 = pieces.load(held, load1);
        const auto load2 = [&](Index piece) FUSEBUILD_INLINE {  // bias
          return fb::cast<float>(r2[piece]);
        };
        const auto run2 = pieces.load(held, load2);
        fb::Vec<float, kVec> c0[kChunks];
        fb::for_each_vector<kMost, kVec>(first, held, [&](int c, Index col, int present) FUSEBUILD_INLINE {
          c0[c] = fb::load_to_widen<float, kVec>(r0 + col, present);
        });

        float a4 = fb::Sum::identity<float>();
        fb::for_each_vector<kMost, kVec>(first, held, [&](int c, Index col, int present) FUSEBUILD_INLINE {
          fb::widen<__nv_bfloat16>(c0[c]);
          const fb::Vec<float, kVec> v0 = c0[c];
          FUSEBUILD_UNROLL
          for (int k = 0; k < kVec; ++k) {
            if (k >= present) break;
            const float t0 = v0[k];
            a4 = fb::Sum::combine(a4, fb::cast<float>(t0));
          }
        });
        fb::reduce_threads(threads, fb::accumulator<fb::Sum>(a4));
        const float t4 = a4;  // mean_sum, crossing_rows.yaml:14
        const float t5 = t4 / fb::cast<float>(s3);  // mean_reduced, crossing_rows.yaml:14

        float a9 = fb::Sum::identity<float>();
        fb::for_each_vector<kMost, kVec>(first, held, [&](int c, Index col, int present) FUSEBUILD_INLINE {
          const fb::Vec<float, kVec> v0 = c0[c];
          FUSEBUILD_UNROLL
          for (int k = 0; k < kVec; ++k) {
            if (k >= present) break;
            const float t0 = v0[k];
            const float t7 = fb::cast<float>(t0) - t5;  // var_centered, crossing_rows.yaml:14
            const float t8 = t7 * t7;  // var_squares, crossing_rows.yaml:14
            a9 = fb::Sum::combine(a9, t8);
          }
        });
        fb::reduce_threads(threads, fb::accumulator<fb::Sum>(a9));
        const float t9 = a9;  // var_sum, crossing_rows.yaml:14
        const float t10 = t9 / fb::cast<float>(s3);  // var_reduced, crossing_rows.yaml:14
        const float t13 = t10 + 0.01f;  // crossing_rows.yaml:15
        const float t14 = fb::rsqrt(t13);  // crossing_rows.yaml:15

        fb::for_each_vector<kMost, kVec>(first, held, [&](int c, Index col, int present) FUSEBUILD_INLINE {
          const fb::Vec<float, kVec> v0 = c0[c];
          fb::Vec<float, kVec> v1 = {};
          fb::Vec<float, kVec> v2 = {};
          if (pieces.are_two()) {
            v1 = fb::vector_of<kVec>(run1, pieces.left(col - first));
            v2 = fb::vector_of<kVec>(run2, pieces.left(col - first));
          } else {
            pieces.each<kVec>(col - first, present,
                [&](int k, Index piece) FUSEBUILD_INLINE { v1[k] = load1(piece); v2[k] = load2(piece); });
          }
          fb::Vec<__nv_bfloat16, kVec> o21;
          FUSEBUILD_UNROLL
          for (int k = 0; k < kVec; ++k) {
            if (k >= present) break;
            const float t0 = v0[k];
            const float t1 = v1[k];
            const float t2 = v2[k];
            const float t7 = fb::cast<float>(t0) - t5;  // var_centered, crossing_rows.yaml:14
            const float t15 = t7 * t14;  // crossing_rows.yaml:15
            const float t17 = t15 * fb::cast<float>(t1);  // crossing_rows.yaml:15
            const float t19 = t17 + t2;  // normed, crossing_rows.yaml:15
            const __nv_bfloat16 t21 = fb::cast<__nv_bfloat16>(t19);  // crossing_rows.yaml:20
            o21[k] = t21;
          }
          fb::store_present(r21 + col, o21, present);
        });

        if (active && lane == 0) {
          rows20[row - top] = t10;
        }
      }
    }

    fb::sync_block();
    fb::store_flat<kCopied, kThreads>(T21 + (origin - begin), tile21, begin + from * columns, begin + to * columns);
  }
  fb::store_flat<1, kThreads>(T20 + top, rows20, 0, depth);
}

FUSEBUILD_ENTRY(inner_tiled_d67935e6d4224c98)
