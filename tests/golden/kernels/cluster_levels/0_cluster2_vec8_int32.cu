// cluster_levels.yaml, segment 0: inner_persistent, variant cluster2_vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 3: 3, 13: 12, 26: 22, 31: 21, 36: 28, 39: 31}
// schedule: threads.per_row=256 threads.rows=1 storage=cluster chunks=5 cached=[0, 1] kept=[20, 9] early=[] cluster=2
//   ahead=0
// launch: segment 0, cluster2_vec8_int32 on sm_90: grid 2*M, 1, 1; block 256, 1, 1; overlaps what is before; given x,
//   y, weight, per_row, total, m, v, out, also, N, N; if N < 2146435072, (N % 8) == 0, aligned(x, 16), aligned(y, 16),
//   aligned(weight, 16), aligned(out, 16), aligned(also, 16), 8207 < N, N <= 20480
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreadsPerRow = 256;
constexpr int kCluster = 2;  // neighbouring blocks, which walk a row together
constexpr int kVec = 8;  // neighbouring elements per access
constexpr int kChunks = 5;  // vectors of a row that a thread holds
constexpr int kStep = kCluster * kThreadsPerRow * kVec;  // columns from one of them to the next

FUSEBUILD_CLUSTER_KERNEL(kThreadsPerRow, 2, kCluster)
inner_persistent_140524015bc42ad9(
    const __half* T0,  // x: half[M, N]
    const float* T1,  // y: float[M, N]
    const __nv_bfloat16* T2,  // weight: bfloat16[N]
    const float* T3,  // per_row: float[M, 1]
    float* T13,  // total: float[M, 1]
    float* T26,  // m: float[M, 1]
    float* T31,  // v: float[M, 1]
    __half* T36,  // out: half[M, N]
    int32_t* T39,  // also: int32[M, N]
    int64_t s23,  // N
    int64_t n1) {  // N
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  fb::ClusterPhase phase = fb::join_cluster();
  const Index columns = n1;
  const int rank = fb::cluster_rank<kCluster>();
  const int lane = fb::thread_x();
  const Index start = (rank * kThreadsPerRow + lane) * kVec;  // of the thread's first vector
  const int64_t row = fb::block_x() / kCluster;
  const float t3 = T3[row];  // per_row
  const __half* r0 = T0 + row * n1;
  const float* r1 = T1 + row * n1;
  const __nv_bfloat16* r2 = T2;
  __half* r36 = T36 + row * n1;
  int32_t* r39 = T39 + row * n1;
  fb::Packed<__half, kVec> c0[kChunks];
  fb::Packed<float, kVec> c1[kChunks];
  fb::Vec<float, kVec> k20[kChunks];
  fb::Vec<float, kVec> k9[kChunks];

  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = start + c * kStep;
    if (col >= columns) break;
    c0[c] = fb::load_packed<kVec>(r0 + col);
    c1[c] = fb::load_packed<kVec>(r1 + col);
  }

  float a4 = fb::Max::identity<float>();
  float a6 = fb::Min::identity<float>();
  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = start + c * kStep;
    if (col >= columns) break;
    const fb::Vec<__half, kVec> v0 = fb::unpack(c0[c]);
    const fb::Vec<float, kVec> v1 = fb::unpack(c1[c]);
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const __half t0 = v0[k];
      const float t1 = v1[k];
      a4 = fb::Max::combine(a4, fb::cast<float>(t0));
      a6 = fb::Min::combine(a6, t1);
    }
  }
  fb::reduce_row_in_cluster<kThreadsPerRow, kCluster>(phase, fb::accumulator<fb::Max>(a4),
      fb::accumulator<fb::Min>(a6));
  const float t4 = a4;  // top_max, cluster_levels.yaml:12
  const float t6 = a6;  // least_min, cluster_levels.yaml:13

  float a12 = fb::Sum::identity<float>();
  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = start + c * kStep;
    if (col >= columns) break;
    const fb::Vec<__half, kVec> v0 = fb::unpack(c0[c]);
    const fb::Vec<float, kVec> v1 = fb::unpack(c1[c]);
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const __half t0 = v0[k];
      const float t1 = v1[k];
      const float t8 = fb::cast<float>(t0) - t4;  // cluster_levels.yaml:14
      const float t9 = fb::exp_of_negative(t8);  // cluster_levels.yaml:14
      const float t10 = t1 * t3;  // cluster_levels.yaml:14
      const float t11 = t9 + t10;  // e, cluster_levels.yaml:14
      k9[c][k] = t9;
      a12 = fb::Sum::combine(a12, t11);
    }
  }
  fb::reduce_row_in_cluster<kThreadsPerRow, kCluster>(phase, fb::accumulator<fb::Sum>(a12));
  const float t12 = a12;  // total_sum, cluster_levels.yaml:15
  const float t17 = t12 * 0.001f;  // cluster_levels.yaml:16
  const float t19 = t17 + 1.0f;  // cluster_levels.yaml:16

  float a24 = fb::Sum::identity<float>();
  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = start + c * kStep;
    if (col >= columns) break;
    const fb::Vec<float, kVec> v1 = fb::unpack(c1[c]);
    const fb::Vec<__nv_bfloat16, kVec> v2 = fb::load<kVec>(r2 + col);
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const float t9 = k9[c][k];
      const float t1 = v1[k];
      const __nv_bfloat16 t2 = v2[k];
      const float t10 = t1 * t3;  // cluster_levels.yaml:14
      const float t11 = t9 + t10;  // e, cluster_levels.yaml:14
      const float t15 = t11 * 64.0f;  // cluster_levels.yaml:16
      const float t20 = t15 / t19;  // cluster_levels.yaml:16
      const float t22 = t20 + fb::cast<float>(t2);  // scaled, cluster_levels.yaml:16
      k20[c][k] = t20;
      a24 = fb::Sum::combine(a24, t22);
    }
  }
  fb::reduce_row_in_cluster<kThreadsPerRow, kCluster>(phase, fb::accumulator<fb::Sum>(a24));
  const float t24 = a24;  // m_sum, cluster_levels.yaml:17
  const float t25 = t24 / fb::cast<float>(s23);  // m_reduced, cluster_levels.yaml:17

  float a29 = fb::Sum::identity<float>();
  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = start + c * kStep;
    if (col >= columns) break;
    const fb::Vec<__nv_bfloat16, kVec> v2 = fb::load<kVec>(r2 + col);
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const float t20 = k20[c][k];
      const __nv_bfloat16 t2 = v2[k];
      const float t22 = t20 + fb::cast<float>(t2);  // scaled, cluster_levels.yaml:16
      const float t27 = t22 - t25;  // v_centered, cluster_levels.yaml:17
      const float t28 = t27 * t27;  // v_squares, cluster_levels.yaml:17
      a29 = fb::Sum::combine(a29, t28);
    }
  }
  fb::reduce_row_in_cluster<kThreadsPerRow, kCluster>(phase, fb::accumulator<fb::Sum>(a29));
  const float t29 = a29;  // v_sum, cluster_levels.yaml:17
  const float t30 = t29 / fb::cast<float>(s23);  // v_reduced, cluster_levels.yaml:17
  const float t32 = t30 + 0.001f;  // cluster_levels.yaml:18
  const float t33 = fb::rsqrt(t32);  // cluster_levels.yaml:18

  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = start + c * kStep;
    if (col >= columns) break;
    const fb::Vec<__nv_bfloat16, kVec> v2 = fb::load<kVec>(r2 + col);
    fb::Vec<__half, kVec> o36;
    fb::Vec<int32_t, kVec> o39;
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const float t20 = k20[c][k];
      const __nv_bfloat16 t2 = v2[k];
      const float t22 = t20 + fb::cast<float>(t2);  // scaled, cluster_levels.yaml:16
      const float t27 = t22 - t25;  // v_centered, cluster_levels.yaml:17
      const float t34 = t27 * t33;  // normed, cluster_levels.yaml:18
      const float t35 = t34 + t6;  // cluster_levels.yaml:19
      const __half t36 = fb::cast<__half>(t35);  // out, cluster_levels.yaml:19
      const bool t38 = t34 > 0.0f;  // cluster_levels.yaml:20
      const int32_t t39 = fb::cast<int32_t>(t38);  // also, cluster_levels.yaml:20
      o36[k] = t36;
      o39[k] = t39;
    }
    fb::store(r36 + col, o36);
    fb::store(r39 + col, o39);
  }

  if (rank == 0 && lane == 0) {
    T13[row] = t12;
    T26[row] = t25;
    T31[row] = t30;
  }
}

FUSEBUILD_CLUSTER_ENTRY(inner_persistent_140524015bc42ad9, kCluster)
