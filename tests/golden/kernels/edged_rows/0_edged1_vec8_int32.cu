// edged_rows.yaml, segment 0: inner_persistent, variant edged1_vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 16: 8, 28: 21, 35: 32}
// schedule: threads.per_row=256 threads.rows=1 cluster=1 chunks=2 walkers=0 multiprocessors=132 places=8 cached=[0, 1]
//   resident=[] ahead=False has_edges=True room=1 most_threads=0
// launch: segment 0, edged1_vec8_int32 on sm_90: grid M, 1, 1; block 256, 1, 1; overlaps what is before; given x, y,
//   weight, bias, per_row, v, normed, above, N, N; if N < 2146435072, aligned(x, 16), aligned(y, 16), aligned(normed,
//   16), aligned(above, 16), 512 < (N + 384*(M <= 16384)), aligned(weight, 16), aligned(bias, 16), ((M <= 128) + 2*(M
//   <= 64) + 1)*N <= 4111
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreadsPerRow = 256;
constexpr int kVec = 8;  // neighbouring elements per access
constexpr int kChunks = 2;  // vectors of a row that a thread holds
constexpr int kStep = kThreadsPerRow * kVec;  // columns from one of them to the next

FUSEBUILD_KERNEL(kThreadsPerRow, 2)
inner_resident_723f20165ffac6e4(
    const __half* T0,  // x: half[M, N]
    const float* T1,  // y: float[M, N]
    const __nv_bfloat16* T2,  // weight: bfloat16[N]
    const float* T3,  // bias: float[N]
    const float* T4,  // per_row: float[M, 1]
    float* T16,  // v: float[M, 1]
    float* T28,  // normed: float[M, N]
    __half* T35,  // above: half[M, N]
    int64_t s8,  // N
    int64_t n1) {  // N
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  fb::ReducePhase phase;
  const Index columns = n1;
  const int thread = fb::thread_x();
  const int64_t row = fb::block_x();
  const fb::RoomyEdges<kVec, Index> edges(row * columns, columns);
  const Index start = edges.before + thread * kVec;  // of the thread's first vector
  const bool has_edge = thread < edges.count;  // an element beside the row's vectors is the thread's
  const Index edge = edges.column(thread);
  fb::Packed<__half, kVec> c0[kChunks];
  fb::Packed<float, kVec> c1[kChunks];
  __half e0{};
  float e1{};

  const __half* row0 = T0 + row * n1;
  const float* row1 = T1 + row * n1;
  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = start + c * kStep;
    if (col >= edges.end()) break;
    c0[c] = fb::load_packed<kVec>(row0 + start + c * kStep);
    c1[c] = fb::load_packed<kVec>(row1 + start + c * kStep);
  }
  if (has_edge) {
    e0 = row0[edge];
    e1 = row1[edge];
  }
  // All else is found while the row is on its way.
  const float t4 = T4[row];  // per_row
  const __nv_bfloat16* r2 = T2;
  const float* r3 = T3;
  float* r28 = T28 + row * n1;
  __half* r35 = T35 + row * n1;

  __nv_bfloat16 e2{};
  float e3{};
  if (has_edge) {
    e2 = r2[edge];
    e3 = r3[edge];
  }
  constexpr int kAhead = 1;  // vectors that the thread has before the last sweep
  fb::AlignedWords<__nv_bfloat16, kVec> w2[kAhead];
  fb::AlignedWords<float, kVec> w3[kAhead];
  fb::Packed<__nv_bfloat16, kVec> p2[kAhead];
  fb::Packed<float, kVec> p3[kAhead];
  FUSEBUILD_UNROLL
  for (int c = 0; c < kAhead; ++c) {
    if (start + c * kStep >= edges.end()) break;
    w2[c] = fb::load_aligned_words<kVec>(r2 + start + c * kStep, edges.before);
    w3[c] = fb::load_aligned_words<kVec>(r3 + start + c * kStep, edges.before);
  }
  FUSEBUILD_UNROLL
  for (int c = 0; c < kAhead; ++c) {
    if (start + c * kStep >= edges.end()) break;
    p2[c] = fb::pack(fb::cut(w2[c], edges.before));
    p3[c] = fb::pack(fb::cut(w3[c], edges.before));
  }

  float a5 = fb::Min::identity<float>();
  float a9 = fb::Sum::identity<float>();
  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = start + c * kStep;
    if (col >= edges.end()) break;
    const fb::Vec<__half, kVec> v0 = fb::unpack(c0[c]);
    const fb::Vec<float, kVec> v1 = fb::unpack(c1[c]);
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const __half t0 = v0[k];
      const float t1 = v1[k];
      const float t7 = t1 * t4;  // edged_rows.yaml:14
      a5 = fb::Min::combine(a5, fb::cast<float>(t0));
      a9 = fb::Sum::combine(a9, t7);
    }
  }
  if (has_edge) {
    const __half t0 = e0;
    const float t1 = e1;
    const float t7 = t1 * t4;  // edged_rows.yaml:14
    a5 = fb::Min::combine(a5, fb::cast<float>(t0));
    a9 = fb::Sum::combine(a9, t7);
  }
  fb::reduce_row<kThreadsPerRow, 1>(phase, fb::accumulator<fb::Min>(a5), fb::accumulator<fb::Sum>(a9));
  const float t5 = a5;  // low_min, edged_rows.yaml:13
  const float t9 = a9;  // m_sum, edged_rows.yaml:14
  const float t10 = t9 / fb::cast<float>(s8);  // m_reduced, edged_rows.yaml:14

  float a14 = fb::Sum::identity<float>();
  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = start + c * kStep;
    if (col >= edges.end()) break;
    const fb::Vec<float, kVec> v1 = fb::unpack(c1[c]);
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const float t1 = v1[k];
      const float t7 = t1 * t4;  // edged_rows.yaml:14
      const float t12 = t7 - t10;  // v_centered, edged_rows.yaml:14
      const float t13 = t12 * t12;  // v_squares, edged_rows.yaml:14
      a14 = fb::Sum::combine(a14, t13);
    }
  }
  if (has_edge) {
    const float t1 = e1;
    const float t7 = t1 * t4;  // edged_rows.yaml:14
    const float t12 = t7 - t10;  // v_centered, edged_rows.yaml:14
    const float t13 = t12 * t12;  // v_squares, edged_rows.yaml:14
    a14 = fb::Sum::combine(a14, t13);
  }
  fb::reduce_row<kThreadsPerRow, 1>(phase, fb::accumulator<fb::Sum>(a14));
  const float t14 = a14;  // v_sum, edged_rows.yaml:14
  const float t15 = t14 / fb::cast<float>(s8);  // v_reduced, edged_rows.yaml:14
  const float t22 = t15 + 0.01f;  // edged_rows.yaml:16
  const float t23 = fb::rsqrt(t22);  // edged_rows.yaml:16

  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = start + c * kStep;
    if (col >= edges.end()) break;
    const fb::Vec<__half, kVec> v0 = fb::unpack(c0[c]);
    const fb::Vec<float, kVec> v1 = fb::unpack(c1[c]);
    const fb::Vec<__nv_bfloat16, kVec> v2 = c < kAhead
        ? fb::unpack(p2[c % kAhead])
        : fb::load_cut<kVec>(r2 + start + c * kStep, edges.before);
    const fb::Vec<float, kVec> v3 = c < kAhead
        ? fb::unpack(p3[c % kAhead])
        : fb::load_cut<kVec>(r3 + start + c * kStep, edges.before);
    fb::Vec<float, kVec> o28;
    fb::Vec<__half, kVec> o35;
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const __half t0 = v0[k];
      const float t1 = v1[k];
      const __nv_bfloat16 t2 = v2[k];
      const float t3 = v3[k];
      const float t7 = t1 * t4;  // edged_rows.yaml:14
      const float t12 = t7 - t10;  // v_centered, edged_rows.yaml:14
      const int64_t t19 = int64_t(col + k);  // edged_rows.yaml:15
      const float t20 = fb::cast<float>(t19);  // place, edged_rows.yaml:15
      const float t24 = t12 * t23;  // edged_rows.yaml:16
      const float t26 = t24 * fb::cast<float>(t2);  // edged_rows.yaml:16
      const float t28 = t26 + t3;  // normed, edged_rows.yaml:16
      const float t29 = fb::cast<float>(t0) - t5;  // edged_rows.yaml:17
      const float t30 = t29 * t3;  // edged_rows.yaml:17
      const float t32 = t20 / 8192.0f;  // edged_rows.yaml:17
      const float t34 = t30 + t32;  // above, edged_rows.yaml:17
      const __half t35 = fb::cast<__half>(t34);  // edged_rows.yaml:22
      o28[k] = t28;
      o35[k] = t35;
    }
    fb::store(r28 + start + c * kStep, o28);
    fb::store(r35 + start + c * kStep, o35);
  }
  if (has_edge) {
    const __half t0 = e0;
    const float t1 = e1;
    const __nv_bfloat16 t2 = e2;
    const float t3 = e3;
    const float t7 = t1 * t4;  // edged_rows.yaml:14
    const float t12 = t7 - t10;  // v_centered, edged_rows.yaml:14
    const int64_t t19 = int64_t(edge);  // edged_rows.yaml:15
    const float t20 = fb::cast<float>(t19);  // place, edged_rows.yaml:15
    const float t24 = t12 * t23;  // edged_rows.yaml:16
    const float t26 = t24 * fb::cast<float>(t2);  // edged_rows.yaml:16
    const float t28 = t26 + t3;  // normed, edged_rows.yaml:16
    const float t29 = fb::cast<float>(t0) - t5;  // edged_rows.yaml:17
    const float t30 = t29 * t3;  // edged_rows.yaml:17
    const float t32 = t20 / 8192.0f;  // edged_rows.yaml:17
    const float t34 = t30 + t32;  // above, edged_rows.yaml:17
    const __half t35 = fb::cast<__half>(t34);  // edged_rows.yaml:22
    r28[edge] = t28;
    r35[edge] = t35;
  }

  if (thread == 0) {
    T16[row] = t15;
  }
}

FUSEBUILD_ENTRY(inner_resident_723f20165ffac6e4)
