// layernorm.yaml, segment 0: inner_persistent, variant anywhere_vec8_int64
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 7: 6, 15: 8, 21: 13}
// schedule: threads.per_row=256 threads.rows=1 moments.element=3 moments.center=6 anywhere=21
// launch: segment 0, anywhere_vec8_int64 1 of 2 on sm_90: grid ceil_div(argument 12*M, -7*(-(N <=
//   (1792*(3*gpu.multiprocessors < M) + 256)) + 1) + 8), 1, 1; block 256, 1, 1; overlaps what is before; given x,
//   weight, bias, mean, rstd, y, slot 0 of max(128, 4*max(1, min(max((3*gpu.multiprocessors) // max(1, M),
//   ((8*gpu.multiprocessors) // max(1, M))*(((8*gpu.multiprocessors) // max(1, M)) <= (N // 32768))), N // 8192))*M)
//   bytes, slot 1 of 4*max(1, min(max((3*gpu.multiprocessors) // max(1, M), ((8*gpu.multiprocessors) // max(1,
//   M))*(((8*gpu.multiprocessors) // max(1, M)) <= (N // 32768))), N // 8192))*M bytes, N, M, N, max(1,
//   min(max((3*gpu.multiprocessors) // max(1, M), ((8*gpu.multiprocessors) // max(1, M))*(((8*gpu.multiprocessors) //
//   max(1, M)) <= (N // 32768))), N // 8192)), -224*(N <= (1792*(3*gpu.multiprocessors < M) + 256)) + 256, 0
// launch: segment 0, anywhere_vec8_int64 2 of 2 on sm_90: grid (1 < argument 12)*argument 12*M, 1, 1; block 256, 1, 1;
//   overlaps what is before; given x, weight, bias, mean, rstd, y, slot 0 of max(128, 4*max(1,
//   min(max((3*gpu.multiprocessors) // max(1, M), ((8*gpu.multiprocessors) // max(1, M))*(((8*gpu.multiprocessors) //
//   max(1, M)) <= (N // 32768))), N // 8192))*M) bytes, slot 1 of 4*max(1, min(max((3*gpu.multiprocessors) // max(1,
//   M), ((8*gpu.multiprocessors) // max(1, M))*(((8*gpu.multiprocessors) // max(1, M)) <= (N // 32768))), N // 8192))*M
//   bytes, N, M, N, max(1, min(max((3*gpu.multiprocessors) // max(1, M), ((8*gpu.multiprocessors) // max(1,
//   M))*(((8*gpu.multiprocessors) // max(1, M)) <= (N // 32768))), N // 8192)), -224*(N <= (1792*(3*gpu.multiprocessors
//   < M) + 256)) + 256, 1
#include <fusebuild/kernel.cuh>

using Index = int64_t;
constexpr int kThreads = 256;
constexpr int kVec = 8;  // neighbouring elements per access

FUSEBUILD_KERNEL(kThreads, 3)
inner_split_23778815cc556f59(
    const __nv_bfloat16* T0,  // x: bfloat16[M, N]
    const __nv_bfloat16* T1,  // weight: bfloat16[N]
    const __nv_bfloat16* T2,  // bias: bfloat16[N]
    float* __restrict__ T7,  // mean: float[M, 1]
    float* __restrict__ T15,  // rstd: float[M, 1]
    __nv_bfloat16* __restrict__ T21,  // y: bfloat16[M, N]
    float* __restrict__ P5,  // partial results of mean_sum
    float* __restrict__ P10,  // partial results of var_sum
    int64_t s4,  // N
    int64_t n0,  // M
    int64_t n1,  // N
    int64_t parts,  // of a row, one for each block
    int64_t team,  // threads of a row, or of a part of it
    int64_t sweep) {  // over all rows, or the first of all of them
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  fb::ReducePhase phase;
  const Index columns = n1;
  const int64_t block = sweep % 2 == 0 ? fb::block_x() : fb::grid_x() - 1 - fb::block_x();
  const int threads = team;  // of a row
  const int thread = fb::thread_x() % threads;
  const int64_t number = block * (kThreads / threads) + fb::thread_x() / threads;  // of the part
  const int64_t row = number / parts;
  if (row >= n0) return;
  const Index part = number - row * parts;
  const __nv_bfloat16* r0 = T0 + row * n1;
  const __nv_bfloat16* r1 = T1;
  const __nv_bfloat16* r2 = T2;
  __nv_bfloat16* r21 = T21 + row * n1;
  const fb::FreeEdges<kVec, Index> edges(fb::place_of(r21), columns);
  const Index vectors = (edges.end() - edges.before) / kVec;
  const Index first = vectors * int64_t(part) / parts, after = vectors * int64_t(part + 1) / parts;
  const Index start = edges.before + (first + thread) * kVec;  // of the thread's first vector
  const Index end = edges.before + after * kVec;
  const Index step = threads * kVec;  // columns from one vector of a thread to the next
  const bool has_edge = part == 0 && thread < edges.count;  // an element beside the row's vectors is the thread's
  const Index edge = edges.column(thread);

  if (sweep == 0) {
    fb::BatchMoments<float, Index> moments;
    constexpr int kBatch = 4;  // vectors that a thread loads at a time
    fb::Packed<__nv_bfloat16, kVec> p0[kBatch];
    FUSEBUILD_UNROLL_BY(1)
    for (Index top = start; top < end; top += kBatch * step) {
      FUSEBUILD_UNROLL
      for (int u = 0; u < kBatch; ++u) {
        const Index col = top + u * step < end ? top + u * step : top;
        p0[u] = fb::pack(fb::load_cut_anywhere<kVec>(r0 + col));
      }
      FUSEBUILD_UNROLL
      for (int u = 0; u < kBatch; ++u) {
        const Index col = top + u * step;
        if (col >= end) break;
        const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(p0[u]);
        fb::Vec<float, kVec> own;
        FUSEBUILD_UNROLL
        for (int k = 0; k < kVec; ++k) {
          const __nv_bfloat16 t0 = v0[k];
          const float t3 = fb::cast<float>(t0);  // xf, layernorm.yaml:12
          own[k] = t3;
        }
        moments.add(own);
      }
    }
    if (has_edge) {
      const __nv_bfloat16 e0 = r0[edge];
      const __nv_bfloat16 t0 = e0;
      const float t3 = fb::cast<float>(t0);  // xf, layernorm.yaml:12
      moments.add(fb::Vec<float, 1>{t3});
    }
    auto state = moments.state(fb::Welford<float>::identity());
    fb::reduce_team<kThreads>(threads, phase, fb::accumulator<fb::Welford<float>>(state));
    if (thread == 0) {
      P5[number] = float(state.v0 * state.v2);
      P10[number] = state.v1;
    }
    if (parts > 1) return;
    fb::sync_team(threads);
  }
  const auto elements_of = [&](Index own) FUSEBUILD_INLINE {  // that a part has
    const int64_t last = vectors * int64_t(own + 1) / parts, before = vectors * int64_t(own) / parts;
    return float((last - before) * kVec + (own == 0 ? edges.count : 0));
  };

  float a5 = fb::Sum::identity<float>();
  for (int64_t place = row * parts + thread; place < (row + 1) * parts; place += threads) {
    a5 = fb::Sum::combine(a5, P5[place]);
  }
  fb::reduce_team<kThreads>(threads, phase, fb::accumulator<fb::Sum>(a5));
  const float t5 = a5;  // mean_sum, layernorm.yaml:13
  const float t6 = t5 / fb::cast<float>(s4);  // mean_reduced, layernorm.yaml:13

  float a10 = fb::Sum::identity<float>();
  for (int64_t place = row * parts + thread; place < (row + 1) * parts; place += threads) {
    a10 = fb::Sum::combine(a10, fb::squares_around(P10[place], P5[place], elements_of(place - row * parts), t6));
  }
  fb::reduce_team<kThreads>(threads, phase, fb::accumulator<fb::Sum>(a10));
  const float t10 = a10;  // var_sum, layernorm.yaml:13
  const float t11 = t10 / fb::cast<float>(s4);  // var_reduced, layernorm.yaml:13
  const float t14 = t11 + 1e-05f;  // layernorm.yaml:14
  const float t15 = fb::rsqrt(t14);  // rstd, layernorm.yaml:14

  constexpr int kBatch = 2;  // vectors that a thread loads at a time
  fb::Packed<__nv_bfloat16, kVec> p0[kBatch];
  fb::Packed<__nv_bfloat16, kVec> p1[kBatch];
  fb::Packed<__nv_bfloat16, kVec> p2[kBatch];
  FUSEBUILD_UNROLL_BY(1)
  for (Index top = start; top < end; top += kBatch * step) {
    FUSEBUILD_UNROLL
    for (int u = 0; u < kBatch; ++u) {
      const Index col = top + u * step < end ? top + u * step : top;
      p0[u] = fb::pack(fb::load_cut_anywhere<kVec>(r0 + col));
      p1[u] = fb::pack(fb::load_cut_anywhere<kVec>(r1 + col));
      p2[u] = fb::pack(fb::load_cut_anywhere<kVec>(r2 + col));
    }
    FUSEBUILD_UNROLL
    for (int u = 0; u < kBatch; ++u) {
      const Index col = top + u * step;
      if (col >= end) break;
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(p0[u]);
      const fb::Vec<__nv_bfloat16, kVec> v1 = fb::unpack(p1[u]);
      const fb::Vec<__nv_bfloat16, kVec> v2 = fb::unpack(p2[u]);
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
  }
  if (has_edge) {
    const __nv_bfloat16 e0 = r0[edge];
    const __nv_bfloat16 e1 = r1[edge];
    const __nv_bfloat16 e2 = r2[edge];
    const __nv_bfloat16 t0 = e0;
    const __nv_bfloat16 t1 = e1;
    const __nv_bfloat16 t2 = e2;
    const float t3 = fb::cast<float>(t0);  // xf, layernorm.yaml:12
    const float t8 = t3 - t6;  // var_centered, layernorm.yaml:13
    const float t16 = t8 * t15;  // layernorm.yaml:15
    const float t18 = t16 * fb::cast<float>(t1);  // layernorm.yaml:15
    const float t20 = t18 + fb::cast<float>(t2);  // y, layernorm.yaml:15
    const __nv_bfloat16 t21 = fb::cast<__nv_bfloat16>(t20);  // layernorm.yaml:17
    r21[edge] = t21;
  }

  if (part == 0 && thread == 0) {
    T7[row] = t6;
    T15[row] = t15;
  }
}

FUSEBUILD_ENTRY(inner_split_23778815cc556f59)
