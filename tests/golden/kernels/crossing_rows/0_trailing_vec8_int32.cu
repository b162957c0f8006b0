// crossing_rows.yaml, segment 0: inner_persistent, variant trailing_vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 20: 16, 21: 22}
// schedule: threads.per_row=256 threads.rows=1 vectors=8 moments.element=0 moments.center=5 of_samples=[]
// launch: segment 0, trailing_vec8_int32 2 of 2 on sm_90: grid (0 < N*G)*(max(1, ceil_div(K*H*W, 16384))*N*G + argument
//   15), 1, 1; block 256, 1, 1; overlaps what is before; given x, weight, bias, spread, normed, slot 0 of 4*N*G*(max(1,
//   ceil_div(K*H*W, 16384)) + 1) bytes, slot 1 of 4*N*G*(max(1, ceil_div(K*H*W, 16384)) + 1) bytes, K*H*W, N, G, K, H,
//   W, max(1, ceil_div(K*H*W, 16384)), max(1, ceil_div(K*H*W, 16384)) + gpu.multiprocessors, slot 2 of 128*ceil_div(N*G
//   + 1, 32) bytes; if K*H*W < 2146435072, aligned(x, 16), aligned(normed, 16), 512 < K*H*W
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreads = 256;
constexpr int kVec = 8;  // neighbouring elements per access
constexpr int kVectors = 8;  // of each input that a thread has of a part
constexpr Index kStep = kThreads * kVec;  // columns from one of them to the next

FUSEBUILD_KERNEL(kThreads, 3)
inner_trailing_6687f5dee4299bc1(
    const __nv_bfloat16* T0,  // x: bfloat16[N, G, K, H, W]
    const __nv_bfloat16* T1,  // weight: bfloat16[G, K, 1, 1]
    const float* T2,  // bias: float[1, K, H, 1]
    float* __restrict__ T20,  // spread: float[N, G]
    __nv_bfloat16* __restrict__ T21,  // normed: bfloat16[N, G, K, H, W]
    float* __restrict__ P4,  // partial results of mean_sum
    float* __restrict__ P9,  // partial results of var_sum
    int64_t s3,  // K*H*W
    int64_t n0,  // N
    int64_t n1,  // G
    int64_t n2,  // K
    int64_t n3,  // H
    int64_t n4,  // W
    int64_t parts,  // of a row
    int64_t trail,  // parts from one that is stored to the one that is read meanwhile
    int32_t* __restrict__ counters) {  // which begin with 0
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  fb::ReducePhase phase;
  const int64_t turn = fb::draw_turn(counters);  // of the block: those before it have begun
  int* const left = counters + 1;  // how many parts of each row have been left
  const int64_t rows = n0 * n1, all = rows * parts;
  const Index columns = n2 * n3 * n4;
  const int thread = fb::thread_x();

  // The part that is stored; the first blocks have none.
  const int64_t number = turn - trail;  // of the part
  const int64_t row = static_cast<int>(number < 0 ? 0 : number) / static_cast<int>(parts);
  const Index part = number - row * parts;
  const int64_t i1 = row % n1;
  const __nv_bfloat16* r0 = T0 + row * n2 * n3 * n4;
  const __nv_bfloat16* r1 = T1 + i1 * n2;
  const float* r2 = T2;
  __nv_bfloat16* r21 = T21 + row * n2 * n3 * n4;
  fb::forget_origin(r1);
  fb::forget_origin(r2);
  const fb::RoomyEdges<kVec, Index> edges(row * columns, columns);
  const Index start = edges.before + (part * kVectors * kThreads + thread) * kVec;  // of the thread's first vector
  const Index end = number < 0 ? start : fb::smaller(edges.before + (part + 1) * kVectors * kStep, edges.end());
  const bool has_edge = part == 0 && thread < edges.count;  // an element beside the row's vectors is the thread's
  const Index edge = edges.column(thread);
  int* const awaited = number < 0 ? nullptr : &left[row];
  fb::Packed<__nv_bfloat16, kVec> p0[kVectors];
  const auto load_stored = [&]() FUSEBUILD_INLINE {
    FUSEBUILD_UNROLL
    for (int u = 0; u < kVectors; ++u) {
      const Index col = start + u * kStep;
      if (col >= end) break;
      p0[u] = fb::load_packed<kVec>(r0 + col);
    }
  };

  if (const int64_t read = turn; read < all) {
    const int64_t number = read;  // of the part
    const int64_t row = static_cast<int>(number < 0 ? 0 : number) / static_cast<int>(parts);
    const Index part = number - row * parts;
    const __nv_bfloat16* r0 = T0 + row * n2 * n3 * n4;
    const fb::RoomyEdges<kVec, Index> edges(row * columns, columns);
    const Index start = edges.before + (part * kVectors * kThreads + thread) * kVec;  // of the thread's first vector
    const Index end = number < 0 ? start : fb::smaller(edges.before + (part + 1) * kVectors * kStep, edges.end());
    const bool has_edge = part == 0 && thread < edges.count;  // an element beside the row's vectors is the thread's
    const Index edge = edges.column(thread);
    fb::Packed<__nv_bfloat16, kVec> p0[kVectors];
    FUSEBUILD_UNROLL
    for (int u = 0; u < kVectors; ++u) {
      const Index col = start + u * kStep;
      if (col >= end) break;
      p0[u] = fb::load_packed<kVec>(r0 + col);
    }
    const auto elements_of = [&](Index own) FUSEBUILD_INLINE {  // that a part has
      const Index more = edges.end() - edges.before - own * kVectors * kStep;
      return float((more > 0 ? fb::smaller(more, kVectors * kStep) : 0) + (own == 0 ? edges.count : 0));
    };
    {
      float a4 = fb::Sum::identity<float>();
      FUSEBUILD_UNROLL
      for (int u = 0; u < kVectors; ++u) {
        const Index col = start + u * kStep;
        if (col >= end) break;
        const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(p0[u]);
        FUSEBUILD_UNROLL
        for (int k = 0; k < kVec; ++k) {
          const __nv_bfloat16 t0 = v0[k];
          a4 = fb::Sum::combine(a4, fb::cast<float>(t0));
        }
      }
      if (has_edge) {
        const __nv_bfloat16 e0 = r0[edge];
        const __nv_bfloat16 t0 = e0;
        a4 = fb::Sum::combine(a4, fb::cast<float>(t0));
      }
      fb::reduce_row<kThreads, 1>(phase, fb::accumulator<fb::Sum>(a4));
      float a9 = fb::Sum::identity<float>();
      const float t5 = fb::share_of(a4, elements_of(part));  // the part's own
      FUSEBUILD_UNROLL
      for (int u = 0; u < kVectors; ++u) {
        const Index col = start + u * kStep;
        if (col >= end) break;
        const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(p0[u]);
        FUSEBUILD_UNROLL
        for (int k = 0; k < kVec; ++k) {
          const __nv_bfloat16 t0 = v0[k];
          const float t7 = fb::cast<float>(t0) - t5;  // var_centered, crossing_rows.yaml:14
          const float t8 = t7 * t7;  // var_squares, crossing_rows.yaml:14
          a9 = fb::Sum::combine(a9, t8);
        }
      }
      if (has_edge) {
        const __nv_bfloat16 e0 = r0[edge];
        const __nv_bfloat16 t0 = e0;
        const float t7 = fb::cast<float>(t0) - t5;  // var_centered, crossing_rows.yaml:14
        const float t8 = t7 * t7;  // var_squares, crossing_rows.yaml:14
        a9 = fb::Sum::combine(a9, t8);
      }
      load_stored();
      fb::reduce_row<kThreads, 1>(phase, fb::accumulator<fb::Sum>(a9));
      if (thread == 0) {
        P4[number] = a4;
        P9[number] = a9;
      }
    }
    if (fb::is_last_part(&left[row], parts, awaited)) {
      float a4 = fb::Sum::identity<float>();
      for (int64_t place = row * parts + thread; place < (row + 1) * parts; place += kThreads) {
        a4 = fb::Sum::combine(a4, P4[place]);
      }
      fb::reduce_row<kThreads, 1>(phase, fb::accumulator<fb::Sum>(a4));
      const float t4 = a4;  // mean_sum, crossing_rows.yaml:14
      const float t5 = t4 / fb::cast<float>(s3);  // mean_reduced, crossing_rows.yaml:14
      float a9 = fb::Sum::identity<float>();
      for (int64_t place = row * parts + thread; place < (row + 1) * parts; place += kThreads) {
        a9 = fb::Sum::combine(a9, fb::squares_around(P9[place], P4[place], elements_of(place - row * parts), t5));
      }
      fb::reduce_row<kThreads, 1>(phase, fb::accumulator<fb::Sum>(a9));
      if (thread == 0) {
        const int64_t known = all + row;
        P4[known] = a4;
        P9[known] = a9;
        fb::count_up_in_order(&left[row]);
      }
    }
  } else {
    load_stored();
    fb::await_row(awaited, parts);
  }
  if (number < 0) return;
  const int64_t known = all + row;
  float a4 = fb::Sum::identity<float>();
  a4 = fb::Sum::combine(a4, P4[known]);
  const float t4 = a4;  // mean_sum, crossing_rows.yaml:14
  const float t5 = t4 / fb::cast<float>(s3);  // mean_reduced, crossing_rows.yaml:14
  float a9 = fb::Sum::identity<float>();
  a9 = fb::Sum::combine(a9, P9[known]);
  const float t9 = a9;  // var_sum, crossing_rows.yaml:14
  const float t10 = t9 / fb::cast<float>(s3);  // var_reduced, crossing_rows.yaml:14
  const float t13 = t10 + 0.01f;  // crossing_rows.yaml:15
  const float t14 = fb::rsqrt(t13);  // crossing_rows.yaml:15
  const fb::QuickDivisor size3(n3);
  const fb::QuickDivisor size4(n4);
  constexpr int kAhead = kVectors < 2 ? kVectors : 2;
  FUSEBUILD_UNROLL
  for (int top = 0; top < kVectors; top += kAhead) {
    Index runs[kAhead];
    __nv_bfloat16 f1[kAhead];
    float f2[kAhead];
    FUSEBUILD_UNROLL
    for (int u = top; u < top + kAhead; ++u) {
      const Index col = start + u * kStep < end ? start + u * kStep : edges.before;  // no load waits for a test
      const Index piece = runs[u - top] = col / size4;
      const Index i2 = piece / size3;
      f1[u - top] = r1[i2];
      f2[u - top] = r2[piece];
    }
    FUSEBUILD_UNROLL
    for (int u = top; u < top + kAhead; ++u) {
      const Index col = start + u * kStep;
      if (col >= end) break;
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(p0[u]);
      const fb::Pieces<kVec, Index> pieces(col, runs[u - top], n4);
      fb::Packed<__nv_bfloat16, kVec> p1 = fb::pack(fb::splat<kVec>(f1[u - top]));
      fb::Packed<float, kVec> p2 = fb::pack(fb::splat<kVec>(f2[u - top]));
      pieces.others([&](Index piece, auto from) FUSEBUILD_INLINE {
        const Index i2 = piece / size3;
        fb::fill_from(p1, from, r1[i2]);  // weight
        fb::fill_from(p2, from, r2[piece]);  // bias
      });
      pieces.spread(p1, p2);
      const fb::Vec<__nv_bfloat16, kVec> v1 = fb::unpack(p1);
      const fb::Vec<float, kVec> v2 = fb::unpack(p2);
      fb::Vec<__nv_bfloat16, kVec> o21;
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t0 = v0[k];
        const __nv_bfloat16 t1 = v1[k];
        const float t2 = v2[k];
        const float t7 = fb::cast<float>(t0) - t5;  // var_centered, crossing_rows.yaml:14
        const float t15 = t7 * t14;  // crossing_rows.yaml:15
        const float t17 = t15 * fb::cast<float>(t1);  // crossing_rows.yaml:15
        const float t19 = t17 + t2;  // normed, crossing_rows.yaml:15
        const __nv_bfloat16 t21 = fb::cast<__nv_bfloat16>(t19);  // crossing_rows.yaml:20
        o21[k] = t21;
      }
      fb::store(r21 + col, o21);
    }
  }
  if (has_edge) {
    const Index edge_over_4 = edge / size4;
    const Index i3 = edge_over_4 % size3;
    const Index i2 = edge_over_4 / size3;
    const __nv_bfloat16 e0 = r0[edge];
    const __nv_bfloat16 t1 = r1[i2];  // weight
    const float t2 = r2[i2 * n3 + i3];  // bias
    const __nv_bfloat16 t0 = e0;
    const float t7 = fb::cast<float>(t0) - t5;  // var_centered, crossing_rows.yaml:14
    const float t15 = t7 * t14;  // crossing_rows.yaml:15
    const float t17 = t15 * fb::cast<float>(t1);  // crossing_rows.yaml:15
    const float t19 = t17 + t2;  // normed, crossing_rows.yaml:15
    const __nv_bfloat16 t21 = fb::cast<__nv_bfloat16>(t19);  // crossing_rows.yaml:20
    r21[edge] = t21;
  }

  if (part == 0 && thread == 0) {
    T20[row] = t10;
  }
}

FUSEBUILD_ENTRY(inner_trailing_6687f5dee4299bc1)
