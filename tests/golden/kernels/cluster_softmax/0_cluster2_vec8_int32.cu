// cluster_softmax.yaml, segment 0: inner_persistent, variant cluster2_vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 9: 8, 15: 13, 16: 14, 21: 18, 22: 19}
// schedule: threads.per_row=256 threads.rows=1 storage=cluster chunks=16 cached=[0] kept=[] early=[] cluster=2 ahead=3
// launch: segment 0, cluster2_vec8_int32 on sm_90: grid 2*M, 1, 1; block 256, 1, 1; overlaps what is before; given x,
//   weight, mean, total, variance, y, top, N; if N < 2146435072, (N % 8) == 0, aligned(x, 16), aligned(weight, 16),
//   aligned(y, 16), 32783 < N, N <= 65536
#include <fusebuild/kernel.cuh>

using Index = int32_t;

namespace lambdas {

struct welford {
  struct State {
    float v0;  // mean
    float v1;  // m2
    float v2;  // n
  };
  static FUSEBUILD_DEVICE State combine(const State& a, const State& b) {
    const float s6 = a.v2 + b.v2;  // n, cluster_softmax.yaml:11
    const float s7 = b.v0 - a.v0;  // delta, cluster_softmax.yaml:12
    const float s10 = fb::maximum(s6, 1.0f);  // cluster_softmax.yaml:13
    const float s11 = b.v2 / s10;  // cluster_softmax.yaml:13
    const float s12 = s7 * s11;  // cluster_softmax.yaml:13
    const float s13 = a.v0 + s12;  // mean, cluster_softmax.yaml:13
    const float s14 = a.v1 + b.v1;  // cluster_softmax.yaml:14
    const float s15 = s7 * s7;  // cluster_softmax.yaml:14
    const float s16 = a.v2 * b.v2;  // cluster_softmax.yaml:14
    const float s19 = fb::maximum(s6, 1.0f);  // cluster_softmax.yaml:14
    const float s20 = s16 / s19;  // cluster_softmax.yaml:14
    const float s21 = s15 * s20;  // cluster_softmax.yaml:14
    const float s22 = s14 + s21;  // m2, cluster_softmax.yaml:14
    return {s13, s22, s6};
  }
};

}  // namespace lambdas

constexpr int kThreadsPerRow = 256;
constexpr int kCluster = 2;  // neighbouring blocks, which walk a row together
constexpr int kVec = 8;  // neighbouring elements per access
constexpr int kChunks = 16;  // vectors of a row that a thread holds
constexpr int kStep = kCluster * kThreadsPerRow * kVec;  // columns from one of them to the next
constexpr int kAhead = 3;  // how many of them ahead the last sweep loads what the thread does not hold

FUSEBUILD_CLUSTER_KERNEL(kThreadsPerRow, 2, kCluster)
inner_persistent_aaf00ac3a6c43706(
    const __nv_bfloat16* T0,  // x: bfloat16[M, N]
    const float* T1,  // weight: float[N]
    float* __restrict__ T9,  // mean: float[M, 1]
    float* __restrict__ T15,  // total: float[M, 1]
    float* __restrict__ T16,  // variance: float[M, 1]
    __nv_bfloat16* __restrict__ T21,  // y: bfloat16[M, N]
    __nv_bfloat16* __restrict__ T22,  // top: bfloat16[M, 1]
    int64_t n1) {  // N
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  fb::ClusterPhase phase = fb::join_cluster();
  const Index columns = n1;
  const int rank = fb::cluster_rank<kCluster>();
  const int lane = fb::thread_x();
  const Index start = (rank * kThreadsPerRow + lane) * kVec;  // of the thread's first vector
  const int64_t row = fb::block_x() / kCluster;
  const __nv_bfloat16* r0 = T0 + row * n1;
  const float* r1 = T1;
  __nv_bfloat16* r21 = T21 + row * n1;
  fb::Packed<__nv_bfloat16, kVec> c0[kChunks];

  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = start + c * kStep;
    if (col >= columns) break;
    c0[c] = fb::load_packed<kVec>(r0 + col);
  }

  fb::Packed<float, kVec> p1[kChunks];
  const auto load_ahead = [&](int c) FUSEBUILD_INLINE {
    if (c >= kChunks) return;
    const Index col = fb::smaller(start + c * kStep, columns - kVec);  // no load waits for a test
    p1[c] = fb::load_packed_ahead<kVec>(r1 + col);
  };

  float a2 = fb::Max::identity<float>();
  lambdas::welford::State a6 = {0.0f, 0.0f, 0.0f};
  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = start + c * kStep;
    if (col >= columns) break;
    const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(c0[c]);
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const __nv_bfloat16 t0 = v0[k];
      a2 = fb::Max::combine(a2, fb::cast<float>(t0));
      a6 = lambdas::welford::combine(a6, {fb::cast<float>(t0), 0.0f, 1.0f});
    }
  }
  fb::reduce_row_in_cluster<kThreadsPerRow, kCluster>(phase, fb::accumulator<fb::Max>(a2),
      fb::accumulator<lambdas::welford>(a6));
  const float t2 = a2;  // top_max, cluster_softmax.yaml:17
  const float t6 = a6.v0;  // mean_reduced, cluster_softmax.yaml:18
  const float t7 = a6.v1;  // m2_reduced, cluster_softmax.yaml:18
  const float t8 = a6.v2;  // n_reduced, cluster_softmax.yaml:18
  const float t16 = t7 / t8;  // variance, cluster_softmax.yaml:21
  const __nv_bfloat16 t22 = fb::cast<__nv_bfloat16>(t2);  // cluster_softmax.yaml:25

  float a14 = fb::Sum::identity<float>();
  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = start + c * kStep;
    if (col >= columns) break;
    const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(c0[c]);
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const __nv_bfloat16 t0 = v0[k];
      const float t12 = fb::cast<float>(t0) - t2;  // cluster_softmax.yaml:19
      const float t13 = fb::exp_of_negative(t12);  // e, cluster_softmax.yaml:19
      a14 = fb::Sum::combine(a14, t13);
    }
  }
  FUSEBUILD_UNROLL
  for (int c = 0; c < kAhead; ++c) load_ahead(c);
  fb::reduce_row_in_cluster<kThreadsPerRow, kCluster>(phase, fb::accumulator<fb::Sum>(a14));
  const float t14 = a14;  // total_sum, cluster_softmax.yaml:20
  const float t17 = fb::reciprocal_of_at_least_one(t14);  // cluster_softmax.yaml:22

  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = start + c * kStep;
    if (col >= columns) break;
    const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(c0[c]);
    const fb::Vec<float, kVec> v1 = fb::unpack(p1[c]);
    fb::Vec<__nv_bfloat16, kVec> o21;
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const __nv_bfloat16 t0 = v0[k];
      const float t1 = v1[k];
      const float t12 = fb::cast<float>(t0) - t2;  // cluster_softmax.yaml:19
      const float t13 = fb::exp_of_negative(t12);  // e, cluster_softmax.yaml:19
      const float t18 = t13 * t17;  // cluster_softmax.yaml:22
      const float t20 = t18 * t1;  // y, cluster_softmax.yaml:22
      const __nv_bfloat16 t21 = fb::cast<__nv_bfloat16>(t20);  // cluster_softmax.yaml:24
      o21[k] = t21;
    }
    load_ahead(c + kAhead);
    fb::store(r21 + col, o21);
  }

  if (rank == 0 && lane == 0) {
    T9[row] = t6;
    T15[row] = t14;
    T16[row] = t16;
    T22[row] = t22;
  }
}

FUSEBUILD_CLUSTER_ENTRY(inner_persistent_aaf00ac3a6c43706, kCluster)
