// resident_rows.yaml, segment 0: inner_persistent, variant edged32768_vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 11: 10, 16: 9, 24: 16, 26: 18}
// schedule: threads.per_row=256 threads.rows=1 cluster=8 chunks=2 walkers=24 multiprocessors=132 places=8 cached=[0, 1]
//   resident=[3, 4] ahead=True has_edges=True room=1 most_threads=0
// launch: segment 0, edged32768_vec8_int32 2 of 2 on sm_90: grid 8*min(M, 8*max(1, (3*gpu.multiprocessors) // 132)), 1,
//   1; block 256, 1, 1; shared 24576 bytes; overlaps what is before; given x, residual, z, weight, bias, per_row, m, v,
//   normed, gated, N, M, N, 8*max(1, (3*gpu.multiprocessors) // 132), slot 0 of max(128, 4*max(1,
//   min(max((3*gpu.multiprocessors) // max(1, M), ((8*gpu.multiprocessors) // max(1, M))*(((8*gpu.multiprocessors) //
//   max(1, M)) <= (N // 32768))), N // 8192))*M) bytes; if N < 2146435072, aligned(x, 16), aligned(residual, 16),
//   aligned(z, 16), aligned(normed, 16), aligned(gated, 16), 512 < (N + 384*(M <= 16384)), aligned(weight, 16),
//   aligned(bias, 16), N <= 32783
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreadsPerRow = 256;
constexpr int kCluster = 8;  // neighbouring blocks, which have rows together
constexpr int kVec = 8;  // neighbouring elements per access
constexpr int kChunks = 2;  // vectors of a row that a thread holds
constexpr int kStep = kCluster * kThreadsPerRow * kVec;  // columns from one of them to the next

FUSEBUILD_CLUSTER_KERNEL(kThreadsPerRow, 2, kCluster)
inner_resident_fa7fedfa6f748257(
    const float* T0,  // x: float[M, N]
    const __half* T1,  // residual: half[M, N]
    const __nv_bfloat16* T2,  // z: bfloat16[M, N]
    const __nv_bfloat16* T3,  // weight: bfloat16[N]
    const float* T4,  // bias: float[N]
    const float* T5,  // per_row: float[M, 1]
    float* T11,  // m: float[M, 1]
    float* T16,  // v: float[M, 1]
    float* T24,  // normed: float[M, N]
    __nv_bfloat16* T26,  // gated: bfloat16[M, N]
    int64_t s8,  // N
    int64_t n0,  // M
    int64_t n1,  // N
    int64_t walkers,  // clusters that share the rows
    int32_t* __restrict__ counters) {  // which begin with 0
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  fb::ClusterPhase phase = fb::join_cluster();
  const int64_t rows = n0;
  const Index columns = n1;
  const int lane = fb::thread_x();
  const int thread = fb::cluster_rank<kCluster>() * kThreadsPerRow + lane;
  const int64_t first = fb::block_x() / kCluster;
  const fb::RoomyEdges<kVec, Index> edges(first * columns, columns);  // the same for all rows of the block
  const Index start = edges.before + thread * kVec;  // of the thread's first vector
  const bool has_edge = thread < edges.count;  // an element beside the row's vectors is the thread's
  const Index edge = edges.column(thread);
  fb::Packed<float, kVec> q0[kChunks];
  fb::Packed<__half, kVec> q1[kChunks];
  float f0{};
  __half f1{};
  fb::Packed<float, kVec>* const h4 =
      reinterpret_cast<fb::Packed<float, kVec>*>(fb::dynamic_shared<unsigned char>()) + lane;
  fb::Packed<__nv_bfloat16, kVec>* const h3 =
      reinterpret_cast<fb::Packed<__nv_bfloat16, kVec>*>(h4 - lane + kChunks * kThreadsPerRow) + lane;
  __nv_bfloat16 e3{};
  float e4{};
  // Rows whose numbers differ by a multiple of kVec begin at the same place of a vector: each place has its counter.
  int ticket = fb::draw_ticket<kCluster>(counters + first % kVec);

  {  // The first row, and what all rows share.
    const int64_t next = first;
    const float* next0 = T0 + next * n1;
    const __half* next1 = T1 + next * n1;
    FUSEBUILD_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      const Index col = start + c * kStep;
      if (col >= edges.end()) break;
      q0[c] = fb::load_packed<kVec>(next0 + start + c * kStep);
      q1[c] = fb::load_packed<kVec>(next1 + start + c * kStep);
    }
    if (has_edge) {
      f0 = next0[edge];
      f1 = next1[edge];
    }
    // Vectors after the last one are not used, but a load behind a branch would wait for those before it. Those take
    // the thread's first one again: so many threads that took the same one would wait for each other.
    const Index last = edges.end() - kVec, own = fb::smaller(start, last);
    FUSEBUILD_UNROLL_BY(2)
    for (int c = 0; c < kChunks; ++c) {
      const Index col = start + c * kStep <= last ? start + c * kStep : own;
      h3[c * kThreadsPerRow] = fb::pack(fb::load_cut<kVec>(T3 + col, edges.before));
      h4[c * kThreadsPerRow] = fb::pack(fb::load_cut<kVec>(T4 + col, edges.before));
    }
    if (has_edge) {
      e3 = T3[edge];
      e4 = T4[edge];
    }
  }
  fb::meet_cluster(phase);
  int64_t next = first + walkers;
  for (int64_t row = first; row < rows;) {
    const float t5 = T5[row];  // per_row
    const __nv_bfloat16* r2 = T2 + row * n1;
    float* r24 = T24 + row * n1;
    __nv_bfloat16* r26 = T26 + row * n1;
    fb::Packed<float, kVec> c0[kChunks];
    fb::Packed<__half, kVec> c1[kChunks];
    float e0{};
    __half e1{};
    FUSEBUILD_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      c0[c] = q0[c];
      c1[c] = q1[c];
    }
    e0 = f0;
    e1 = f1;
    ticket = fb::await_ticket(ticket);
    if (next < rows) {
      const float* next0 = T0 + next * n1;
      const __half* next1 = T1 + next * n1;
      FUSEBUILD_UNROLL
      for (int c = 0; c < kChunks; ++c) {
        const Index col = start + c * kStep;
        if (col >= edges.end()) break;
        q0[c] = fb::load_packed<kVec>(next0 + start + c * kStep);
        q1[c] = fb::load_packed<kVec>(next1 + start + c * kStep);
      }
      if (has_edge) {
        f0 = next0[edge];
        f1 = next1[edge];
      }
    }

    float a9 = fb::Sum::identity<float>();
    FUSEBUILD_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      const Index col = start + c * kStep;
      if (col >= edges.end()) break;
      const fb::Vec<float, kVec> v0 = fb::unpack(c0[c]);
      const fb::Vec<__half, kVec> v1 = fb::unpack(c1[c]);
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const float t0 = v0[k];
        const __half t1 = v1[k];
        const float t6 = fb::cast<float>(t1) * t5;  // resident_rows.yaml:13
        const float t7 = t0 + t6;  // added, resident_rows.yaml:13
        a9 = fb::Sum::combine(a9, t7);
      }
    }
    if (has_edge) {
      const float t0 = e0;
      const __half t1 = e1;
      const float t6 = fb::cast<float>(t1) * t5;  // resident_rows.yaml:13
      const float t7 = t0 + t6;  // added, resident_rows.yaml:13
      a9 = fb::Sum::combine(a9, t7);
    }
    fb::reduce_row_in_cluster<kThreadsPerRow, kCluster>(phase, fb::accumulator<fb::Sum>(a9));
    const float t9 = a9;  // m_sum, resident_rows.yaml:14
    const float t10 = t9 / fb::cast<float>(s8);  // m_reduced, resident_rows.yaml:14

    float a14 = fb::Sum::identity<float>();
    FUSEBUILD_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      const Index col = start + c * kStep;
      if (col >= edges.end()) break;
      const fb::Vec<float, kVec> v0 = fb::unpack(c0[c]);
      const fb::Vec<__half, kVec> v1 = fb::unpack(c1[c]);
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const float t0 = v0[k];
        const __half t1 = v1[k];
        const float t6 = fb::cast<float>(t1) * t5;  // resident_rows.yaml:13
        const float t7 = t0 + t6;  // added, resident_rows.yaml:13
        const float t12 = t7 - t10;  // v_centered, resident_rows.yaml:14
        const float t13 = t12 * t12;  // v_squares, resident_rows.yaml:14
        a14 = fb::Sum::combine(a14, t13);
      }
    }
    if (has_edge) {
      const float t0 = e0;
      const __half t1 = e1;
      const float t6 = fb::cast<float>(t1) * t5;  // resident_rows.yaml:13
      const float t7 = t0 + t6;  // added, resident_rows.yaml:13
      const float t12 = t7 - t10;  // v_centered, resident_rows.yaml:14
      const float t13 = t12 * t12;  // v_squares, resident_rows.yaml:14
      a14 = fb::Sum::combine(a14, t13);
    }
    fb::reduce_row_in_cluster<kThreadsPerRow, kCluster>(phase, fb::accumulator<fb::Sum>(a14),
        fb::accumulator<fb::Max>(ticket));
    const float t14 = a14;  // v_sum, resident_rows.yaml:14
    const float t15 = t14 / fb::cast<float>(s8);  // v_reduced, resident_rows.yaml:14
    const float t18 = t15 + 1e-05f;  // resident_rows.yaml:15
    const float t19 = fb::rsqrt(t18);  // resident_rows.yaml:15
    const int64_t later = 2 * walkers + first % kVec + kVec * int64_t(ticket);
    ticket = fb::draw_ticket<kCluster>(counters + first % kVec);

    FUSEBUILD_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      const Index col = start + c * kStep;
      if (col >= edges.end()) break;
      const fb::Vec<float, kVec> v0 = fb::unpack(c0[c]);
      const fb::Vec<__half, kVec> v1 = fb::unpack(c1[c]);
      const fb::Vec<__nv_bfloat16, kVec> v2 = fb::load<kVec>(r2 + start + c * kStep);
      const fb::Vec<__nv_bfloat16, kVec> v3 = fb::unpack(h3[c * kThreadsPerRow]);
      const fb::Vec<float, kVec> v4 = fb::unpack(h4[c * kThreadsPerRow]);
      fb::Vec<float, kVec> o24;
      fb::Vec<__nv_bfloat16, kVec> o26;
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const float t0 = v0[k];
        const __half t1 = v1[k];
        const __nv_bfloat16 t2 = v2[k];
        const __nv_bfloat16 t3 = v3[k];
        const float t4 = v4[k];
        const float t6 = fb::cast<float>(t1) * t5;  // resident_rows.yaml:13
        const float t7 = t0 + t6;  // added, resident_rows.yaml:13
        const float t12 = t7 - t10;  // v_centered, resident_rows.yaml:14
        const float t20 = t12 * t19;  // resident_rows.yaml:15
        const float t22 = t20 * fb::cast<float>(t3);  // resident_rows.yaml:15
        const float t24 = t22 + t4;  // normed, resident_rows.yaml:15
        const float t25 = t24 * fb::cast<float>(t2);  // gated, resident_rows.yaml:16
        const __nv_bfloat16 t26 = fb::cast<__nv_bfloat16>(t25);  // resident_rows.yaml:19
        o24[k] = t24;
        o26[k] = t26;
      }
      fb::store(r24 + start + c * kStep, o24);
      fb::store(r26 + start + c * kStep, o26);
    }
    if (has_edge) {
      const __nv_bfloat16 e2 = r2[edge];
      const float t0 = e0;
      const __half t1 = e1;
      const __nv_bfloat16 t2 = e2;
      const __nv_bfloat16 t3 = e3;
      const float t4 = e4;
      const float t6 = fb::cast<float>(t1) * t5;  // resident_rows.yaml:13
      const float t7 = t0 + t6;  // added, resident_rows.yaml:13
      const float t12 = t7 - t10;  // v_centered, resident_rows.yaml:14
      const float t20 = t12 * t19;  // resident_rows.yaml:15
      const float t22 = t20 * fb::cast<float>(t3);  // resident_rows.yaml:15
      const float t24 = t22 + t4;  // normed, resident_rows.yaml:15
      const float t25 = t24 * fb::cast<float>(t2);  // gated, resident_rows.yaml:16
      const __nv_bfloat16 t26 = fb::cast<__nv_bfloat16>(t25);  // resident_rows.yaml:19
      r24[edge] = t24;
      r26[edge] = t26;
    }

    if (thread == 0) {
      T11[row] = t10;
      T16[row] = t15;
    }
    row = next;
    next = later;
  }
}

FUSEBUILD_CLUSTER_ENTRY(inner_resident_fa7fedfa6f748257, kCluster)
