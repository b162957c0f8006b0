// resident_rows.yaml, segment 0: inner_persistent, variant resident8_vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 11: 10, 16: 9, 24: 16, 26: 18}
// schedule: threads.per_row=512 threads.rows=1 cluster=8 chunks=2 walkers=15 multiprocessors=132 places=1 cached=[0, 1]
//   resident=[3, 4] ahead=True has_edges=False room=1 most_threads=0
// launch: segment 0, resident8_vec8_int32 2 of 2 on sm_90: grid 8*min(M, max(1, (15*gpu.multiprocessors) // 132)), 1,
//   1; block 512, 1, 1; shared 49152 bytes; overlaps what is before; given x, residual, z, weight, bias, per_row, m, v,
//   normed, gated, N, M, N, max(1, (15*gpu.multiprocessors) // 132), slot 0 of max(128, 4*max(1,
//   min(max((3*gpu.multiprocessors) // max(1, M), ((8*gpu.multiprocessors) // max(1, M))*(((8*gpu.multiprocessors) //
//   max(1, M)) <= (N // 32768))), N // 8192))*M) bytes; if N < 2146435072, (N % 8) == 0, aligned(x, 16),
//   aligned(residual, 16), aligned(z, 16), aligned(weight, 16), aligned(bias, 16), aligned(normed, 16), aligned(gated,
//   16), 262144 <= 6*N, N <= 65536
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreadsPerRow = 512;
constexpr int kCluster = 8;  // neighbouring blocks, which have rows together
constexpr int kVec = 8;  // neighbouring elements per access
constexpr int kChunks = 2;  // vectors of a row that a thread holds
constexpr int kStep = kCluster * kThreadsPerRow * kVec;  // columns from one of them to the next

FUSEBUILD_CLUSTER_KERNEL(kThreadsPerRow, 1, kCluster)
inner_resident_c6e9ac4dc670c550(
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
  const Index start = thread * kVec;
  fb::Packed<float, kVec> q0[kChunks];
  fb::Packed<__half, kVec> q1[kChunks];
  fb::Packed<float, kVec>* const h4 =
      reinterpret_cast<fb::Packed<float, kVec>*>(fb::dynamic_shared<unsigned char>()) + lane;
  fb::Packed<__nv_bfloat16, kVec>* const h3 =
      reinterpret_cast<fb::Packed<__nv_bfloat16, kVec>*>(h4 - lane + kChunks * kThreadsPerRow) + lane;
  int ticket = fb::draw_ticket<kCluster>(counters);

  {  // The first row, and what all rows share.
    const int64_t next = first;
    const float* next0 = T0 + next * n1;
    const __half* next1 = T1 + next * n1;
    FUSEBUILD_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      const Index col = start + c * kStep;
      if (col >= columns) break;
      q0[c] = fb::load_packed<kVec>(next0 + start + c * kStep);
      q1[c] = fb::load_packed<kVec>(next1 + start + c * kStep);
    }
    // Vectors after the last one are not used, but a load behind a branch would wait for those before it. Those take
    // the thread's first one again: so many threads that took the same one would wait for each other.
    const Index last = columns - kVec, own = fb::smaller(start, last);
    FUSEBUILD_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      const Index col = start + c * kStep <= last ? start + c * kStep : own;
      fb::copy_async(&h3[c * kThreadsPerRow], T3 + col);
      fb::copy_async(&h4[c * kThreadsPerRow], T4 + col);
    }
    fb::end_copies();
    fb::wait_copies<0>();
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
    FUSEBUILD_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      c0[c] = q0[c];
      c1[c] = q1[c];
    }
    ticket = fb::await_ticket(ticket);
    if (next < rows) {
      const float* next0 = T0 + next * n1;
      const __half* next1 = T1 + next * n1;
      FUSEBUILD_UNROLL
      for (int c = 0; c < kChunks; ++c) {
        const Index col = start + c * kStep;
        if (col >= columns) break;
        q0[c] = fb::load_packed<kVec>(next0 + start + c * kStep);
        q1[c] = fb::load_packed<kVec>(next1 + start + c * kStep);
      }
    }

    float a9 = fb::Sum::identity<float>();
    FUSEBUILD_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      const Index col = start + c * kStep;
      if (col >= columns) break;
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
    fb::reduce_row_in_cluster<kThreadsPerRow, kCluster>(phase, fb::accumulator<fb::Sum>(a9));
    const float t9 = a9;  // m_sum, resident_rows.yaml:14
    const float t10 = t9 / fb::cast<float>(s8);  // m_reduced, resident_rows.yaml:14

    float a14 = fb::Sum::identity<float>();
    FUSEBUILD_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      const Index col = start + c * kStep;
      if (col >= columns) break;
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
    fb::reduce_row_in_cluster<kThreadsPerRow, kCluster>(phase, fb::accumulator<fb::Sum>(a14),
        fb::accumulator<fb::Max>(ticket));
    const float t14 = a14;  // v_sum, resident_rows.yaml:14
    const float t15 = t14 / fb::cast<float>(s8);  // v_reduced, resident_rows.yaml:14
    const float t18 = t15 + 1e-05f;  // resident_rows.yaml:15
    const float t19 = fb::rsqrt(t18);  // resident_rows.yaml:15
    const int64_t later = 2 * walkers + int64_t(ticket);
    ticket = fb::draw_ticket<kCluster>(counters);

    FUSEBUILD_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      const Index col = start + c * kStep;
      if (col >= columns) break;
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

    if (thread == 0) {
      T11[row] = t10;
      T16[row] = t15;
    }
    row = next;
    next = later;
  }
}

FUSEBUILD_CLUSTER_ENTRY(inner_resident_c6e9ac4dc670c550, kCluster)
