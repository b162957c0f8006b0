// adaln_forward.yaml, segment 0: inner_persistent, variant edged8192_vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 15: 9, 18: 11, 30: 22}
// schedule: threads.per_row=256 threads.rows=1 cluster=1 chunks=4 walkers=396 multiprocessors=132 places=1 cached=[0]
//   resident=[1, 2] ahead=True has_edges=True room=2 most_threads=0 of_samples=[3, 4]
// launch: segment 0, edged8192_vec8_int32 on sm_90: grid min(B*S, max(1, (396*gpu.multiprocessors) // 132)), 1, 1;
//   block 256, 1, 1; shared 65792 bytes; overlaps what is before; given x, weight, bias, scale, shift, mean, rstd, y,
//   D, B, S, D, max(1, (396*gpu.multiprocessors) // 132), S; if D < 2146435072, aligned(x, 16), aligned(y, 16), 512 <
//   (D + 384*(B*S <= 16384)), aligned(weight, 16), aligned(bias, 16), aligned(scale, 16), aligned(shift, 16), ((B*S <=
//   132) + 2*(B*S <= 66) + 1)*D <= 8215
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreadsPerRow = 256;
constexpr int kVec = 8;  // neighbouring elements per access
constexpr int kChunks = 4;  // vectors of a row that a thread holds
constexpr int kStep = kThreadsPerRow * kVec;  // columns from one of them to the next
constexpr int kPlaces = fb::places_of(kThreadsPerRow);  // in shared memory

FUSEBUILD_KERNEL(kThreadsPerRow, 3)
inner_sampled_a0cf4b26ebea9363(
    const __nv_bfloat16* T0,  // x: bfloat16[B, S, D]
    const __nv_bfloat16* T1,  // weight: bfloat16[D]
    const __nv_bfloat16* T2,  // bias: bfloat16[D]
    const __nv_bfloat16* T3,  // scale: bfloat16[B, D]
    const __nv_bfloat16* T4,  // shift: bfloat16[B, D]
    float* __restrict__ T15,  // mean: float[B, S]
    float* __restrict__ T18,  // rstd: float[B, S, 1]
    __nv_bfloat16* __restrict__ T30,  // y: bfloat16[B, S, D]
    int64_t s6,  // D
    int64_t n0,  // B
    int64_t n1,  // S
    int64_t n2,  // D
    int64_t walkers,  // clusters that share the rows
    int64_t run) {  // rows that follow each other in a sample
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  fb::ReducePhase phase;
  const int64_t rows = n0 * n1;
  const Index columns = n2;
  const int thread = fb::thread_x();
  const fb::WalkedRows walked = fb::walked_rows<kVec>(columns, rows, run, fb::block_x(), walkers);
  fb::Packed<__nv_bfloat16, kVec> q0[kChunks];
  __nv_bfloat16 f0{};
  fb::Packed<__nv_bfloat16, kVec>* const h1 =
      reinterpret_cast<fb::Packed<__nv_bfloat16, kVec>*>(fb::dynamic_shared<unsigned char>()) + thread;
  fb::Packed<__nv_bfloat16, kVec>* const h2 =
      reinterpret_cast<fb::Packed<__nv_bfloat16, kVec>*>(h1 - thread + kChunks * kPlaces) + thread;
  fb::Packed<__nv_bfloat16, kVec>* const h3 =
      reinterpret_cast<fb::Packed<__nv_bfloat16, kVec>*>(h2 - thread + kChunks * kPlaces) + thread;
  fb::Packed<__nv_bfloat16, kVec>* const h4 =
      reinterpret_cast<fb::Packed<__nv_bfloat16, kVec>*>(h3 - thread + kChunks * kPlaces) + thread;
  __nv_bfloat16 e1{};
  __nv_bfloat16 e2{};
  __nv_bfloat16 e3{};
  __nv_bfloat16 e4{};
  int place = -1;  // where in a vector the rows begin for which it stays
  const __nv_bfloat16* held4 = nullptr;

  {
    const int64_t next = walked.first;
    const fb::RoomyEdges<kVec, Index, 2> edges(next * columns, columns);
    const Index start = edges.before + thread * kVec;  // of the thread's first vector
    const bool has_edge = thread < edges.count;  // an element beside the row's vectors is the thread's
    const Index edge = edges.column(thread);
    const __nv_bfloat16* next0 = T0 + next * n2;
    FUSEBUILD_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      const Index col = start + c * kStep;
      if (col >= edges.end()) break;
      q0[c] = fb::load_packed<kVec>(next0 + start + c * kStep);
    }
    if (has_edge) {
      f0 = next0[edge];
    }
  }
  int64_t row = walked.first;
  for (int left = walked.count; left > 0; --left) {
    const fb::RoomyEdges<kVec, Index, 2> edges(row * columns, columns);
    const Index start = edges.before + thread * kVec;  // of the thread's first vector
    const bool has_edge = thread < edges.count;  // an element beside the row's vectors is the thread's
    const Index edge = edges.column(thread);
    const int64_t i0 = row / n1;
    const __nv_bfloat16* r3 = T3 + i0 * n2;
    const __nv_bfloat16* r4 = T4 + i0 * n2;
    __nv_bfloat16* r30 = T30 + row * n2;
    fb::Packed<__nv_bfloat16, kVec> c0[kChunks];
    __nv_bfloat16 e0{};
    FUSEBUILD_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      c0[c] = q0[c];
    }
    e0 = f0;
    const int64_t next = walked.after(row, rows);
    if (left > 1) {
      const fb::RoomyEdges<kVec, Index, 2> edges(next * columns, columns);
      const Index start = edges.before + thread * kVec;  // of the thread's first vector
      const bool has_edge = thread < edges.count;  // an element beside the row's vectors is the thread's
      const Index edge = edges.column(thread);
      const __nv_bfloat16* next0 = T0 + next * n2;
      FUSEBUILD_UNROLL
      for (int c = 0; c < kChunks; ++c) {
        const Index col = start + c * kStep;
        if (col >= edges.end()) break;
        q0[c] = fb::load_packed<kVec>(next0 + start + c * kStep);
      }
      if (has_edge) {
        f0 = next0[edge];
      }
    }

    const bool is_elsewhere = edges.before != place;
    const bool is_other = is_elsewhere || r4 != held4;
    if (is_elsewhere) {
      place = edges.before;
      FUSEBUILD_UNROLL_BY(1)
      for (int c = 0; c < kChunks; ++c) {
        const Index col = start + c * kStep;
        if (col >= edges.end() + kVec) break;  // the word after the last vector is one of its words
        const bool has_next = thread == kThreadsPerRow - 1 && col < edges.end();
        fb::copy_around(h1 + c * kPlaces, T1 + col, has_next);
        fb::copy_around(h2 + c * kPlaces, T2 + col, has_next);
      }
      if (has_edge) {
        e1 = T1[edge];
        e2 = T2[edge];
      }
    }
    if (is_other) {
      held4 = r4;
      FUSEBUILD_UNROLL_BY(1)
      for (int c = 0; c < kChunks; ++c) {
        const Index col = start + c * kStep;
        if (col >= edges.end() + kVec) break;  // the word after the last vector is one of its words
        const bool has_next = thread == kThreadsPerRow - 1 && col < edges.end();
        fb::copy_around(h3 + c * kPlaces, r3 + col, has_next);
        fb::copy_around(h4 + c * kPlaces, r4 + col, has_next);
      }
      if (has_edge) {
        e3 = r3[edge];
        e4 = r4[edge];
      }
      fb::end_copies();
    }

    float a7 = fb::Sum::identity<float>();
    FUSEBUILD_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      const Index col = start + c * kStep;
      if (col >= edges.end()) break;
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(c0[c]);
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t0 = v0[k];
        const float t5 = fb::cast<float>(t0);  // xf, adaln_forward.yaml:14
        a7 = fb::Sum::combine(a7, t5);
      }
    }
    if (has_edge) {
      const __nv_bfloat16 t0 = e0;
      const float t5 = fb::cast<float>(t0);  // xf, adaln_forward.yaml:14
      a7 = fb::Sum::combine(a7, t5);
    }
    fb::reduce_row<kThreadsPerRow, 1>(phase, fb::accumulator<fb::Sum>(a7));
    const float t7 = a7;  // mean_column_sum, adaln_forward.yaml:15
    const float t8 = t7 / fb::cast<float>(s6);  // mean_column_reduced, adaln_forward.yaml:15

    float a12 = fb::Sum::identity<float>();
    FUSEBUILD_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      const Index col = start + c * kStep;
      if (col >= edges.end()) break;
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(c0[c]);
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t0 = v0[k];
        const float t5 = fb::cast<float>(t0);  // xf, adaln_forward.yaml:14
        const float t10 = t5 - t8;  // var_centered, adaln_forward.yaml:15
        const float t11 = t10 * t10;  // var_squares, adaln_forward.yaml:15
        a12 = fb::Sum::combine(a12, t11);
      }
    }
    if (has_edge) {
      const __nv_bfloat16 t0 = e0;
      const float t5 = fb::cast<float>(t0);  // xf, adaln_forward.yaml:14
      const float t10 = t5 - t8;  // var_centered, adaln_forward.yaml:15
      const float t11 = t10 * t10;  // var_squares, adaln_forward.yaml:15
      a12 = fb::Sum::combine(a12, t11);
    }
    fb::reduce_row<kThreadsPerRow, 1>(phase, fb::accumulator<fb::Sum>(a12));
    const float t12 = a12;  // var_sum, adaln_forward.yaml:15
    const float t13 = t12 / fb::cast<float>(s6);  // var_reduced, adaln_forward.yaml:15
    const float t17 = t13 + 1e-06f;  // adaln_forward.yaml:17
    const float t18 = fb::rsqrt(t17);  // rstd, adaln_forward.yaml:17

    if (is_other) {
      const int vectors = start < edges.end() ? (edges.end() - start - 1) / kStep + 1 : 0;  // of the thread
      fb::wait_copies<0>();
      fb::sync_block();
      if (is_elsewhere) {
        fb::align_words<kChunks>(h1, kPlaces, fb::place_of(T1 + start) % kVec, vectors);
        fb::align_words<kChunks>(h2, kPlaces, fb::place_of(T2 + start) % kVec, vectors);
      }
      fb::align_words<kChunks>(h3, kPlaces, fb::place_of(r3 + start) % kVec, vectors);
      fb::align_words<kChunks>(h4, kPlaces, fb::place_of(r4 + start) % kVec, vectors);
    }
    FUSEBUILD_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      const Index col = start + c * kStep;
      if (col >= edges.end()) break;
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(c0[c]);
      const fb::Vec<__nv_bfloat16, kVec> v1 = fb::unpack(h1[c * kPlaces]);
      const fb::Vec<__nv_bfloat16, kVec> v2 = fb::unpack(h2[c * kPlaces]);
      const fb::Vec<__nv_bfloat16, kVec> v3 = fb::unpack(h3[c * kPlaces]);
      const fb::Vec<__nv_bfloat16, kVec> v4 = fb::unpack(h4[c * kPlaces]);
      fb::Vec<__nv_bfloat16, kVec> o30;
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t0 = v0[k];
        const __nv_bfloat16 t1 = v1[k];
        const __nv_bfloat16 t2 = v2[k];
        const __nv_bfloat16 t3 = v3[k];
        const __nv_bfloat16 t4 = v4[k];
        const float t5 = fb::cast<float>(t0);  // xf, adaln_forward.yaml:14
        const float t10 = t5 - t8;  // var_centered, adaln_forward.yaml:15
        const float t19 = t10 * t18;  // adaln_forward.yaml:18
        const float t21 = t19 * fb::cast<float>(t1);  // adaln_forward.yaml:18
        const float t23 = t21 + fb::cast<float>(t2);  // affine, adaln_forward.yaml:18
        const float t27 = 1.0f + fb::cast<float>(t3);  // adaln_forward.yaml:21
        const float t28 = t23 * t27;  // adaln_forward.yaml:21
        const float t29 = t28 + fb::cast<float>(t4);  // y, adaln_forward.yaml:21
        const __nv_bfloat16 t30 = fb::cast<__nv_bfloat16>(t29);  // adaln_forward.yaml:23
        o30[k] = t30;
      }
      fb::store(r30 + start + c * kStep, o30);
    }
    if (has_edge) {
      const __nv_bfloat16 t0 = e0;
      const __nv_bfloat16 t1 = e1;
      const __nv_bfloat16 t2 = e2;
      const __nv_bfloat16 t3 = e3;
      const __nv_bfloat16 t4 = e4;
      const float t5 = fb::cast<float>(t0);  // xf, adaln_forward.yaml:14
      const float t10 = t5 - t8;  // var_centered, adaln_forward.yaml:15
      const float t19 = t10 * t18;  // adaln_forward.yaml:18
      const float t21 = t19 * fb::cast<float>(t1);  // adaln_forward.yaml:18
      const float t23 = t21 + fb::cast<float>(t2);  // affine, adaln_forward.yaml:18
      const float t27 = 1.0f + fb::cast<float>(t3);  // adaln_forward.yaml:21
      const float t28 = t23 * t27;  // adaln_forward.yaml:21
      const float t29 = t28 + fb::cast<float>(t4);  // y, adaln_forward.yaml:21
      const __nv_bfloat16 t30 = fb::cast<__nv_bfloat16>(t29);  // adaln_forward.yaml:23
      r30[edge] = t30;
    }

    if (thread == 0) {
      T15[row] = t8;
      T18[row] = t18;
    }
    row = next;
  }
}

FUSEBUILD_ENTRY(inner_sampled_a0cf4b26ebea9363)
