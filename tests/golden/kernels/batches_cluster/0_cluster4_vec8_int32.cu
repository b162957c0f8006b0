// batches_cluster.yaml, segment 0: inner_persistent, variant cluster4_vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 16: 4, 30: 23}
// schedule: threads.per_row=512 threads.rows=1 storage=cluster chunks=8 cached=[0] kept=[] early=[] cluster=4 ahead=0
// launch: segment 0, cluster4_vec8_int32 on sm_90: grid 4*M, 1, 1; block 512, 1, 1; overlaps what is before; given x,
//   place, largest, y, N; if N < 2146435072, (N % 8) == 0, aligned(x, 16), aligned(y, 16), 65551 < N, N <= 131072
#include <fusebuild/kernel.cuh>

using Index = int32_t;

namespace lambdas {

struct builtin_argmax_float {
  struct State {
    float v0;  // value
    int64_t v1;  // index
  };
  static FUSEBUILD_DEVICE State combine(const State& a, const State& b) {
    const bool s4 = a.v0 > b.v0;
    const bool s5 = a.v0 == b.v0;
    const bool s6 = fb::isnan(a.v0);
    const bool s7 = fb::isnan(b.v0);
    const bool s8 = !s7;
    const bool s9 = s6 && s8;
    const bool s10 = s4 || s9;
    const bool s11 = s6 && s7;
    const bool s12 = s5 || s11;
    const bool s13 = a.v1 < b.v1;
    const bool s14 = s12 && s13;
    const bool s15 = s10 || s14;  // keep
    const float s16 = fb::where(s15, a.v0, b.v0);  // value
    const int64_t s17 = fb::where(s15, a.v1, b.v1);  // index
    return {s16, s17};
  }
};

}  // namespace lambdas

constexpr int kThreadsPerRow = 512;
constexpr int kCluster = 4;  // neighbouring blocks, which walk a row together
constexpr int kVec = 8;  // neighbouring elements per access
constexpr int kChunks = 8;  // vectors of a row that a thread holds
constexpr int kStep = kCluster * kThreadsPerRow * kVec;  // columns from one of them to the next

FUSEBUILD_CLUSTER_KERNEL(kThreadsPerRow, 2, kCluster)
inner_persistent_b8d8665c26e16c4a(
    const __nv_bfloat16* T0,  // x: bfloat16[M, N]
    const int64_t* T1,  // place: int64[M, 1]
    int64_t* __restrict__ T16,  // largest: int64[M, 1]
    float* __restrict__ T30,  // y: float[M, N]
    int64_t n1) {  // N
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  fb::ClusterPhase phase = fb::join_cluster();
  const Index columns = n1;
  const int rank = fb::cluster_rank<kCluster>();
  const int lane = fb::thread_x();
  const Index start = (rank * kThreadsPerRow + lane) * kVec;  // of the thread's first vector
  const int64_t row = fb::block_x() / kCluster;
  const int64_t t1 = T1[row];  // place
  const __nv_bfloat16* r0 = T0 + row * n1;
  float* r30 = T30 + row * n1;
  fb::Packed<__nv_bfloat16, kVec> c0[kChunks];

  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = start + c * kStep;
    if (col >= columns) break;
    c0[c] = fb::load_packed<kVec>(r0 + col);
  }

  fb::ExpSum<float>::State a5 = {float(-INFINITY), 0.0f};
  float a21 = fb::Sum::identity<float>();
  fb::FirstBest<fb::Max, float, 1, Index> w14;
  const bool has21 = rank == 0 && lane == 0 && t1 >= 0 && t1 < columns;
  const Index at21 = has21 ? t1 : 0;
  const __nv_bfloat16 q21_0 = has21 ? r0[at21] : fb::cast<__nv_bfloat16>(0.0f);
  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = start + c * kStep;
    if (col >= columns) break;
    const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(c0[c]);
    fb::Vec<float, kVec> e5;
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const __nv_bfloat16 t0 = v0[k];
      w14.add(fb::Vec<float, 1>{fb::cast<float>(t0)}, col + k);
      e5[k] = fb::cast<float>(t0);
    }
    fb::add_exponentials(a5, e5);
  }
  auto a14 = w14.state<lambdas::builtin_argmax_float::State>({float(-INFINITY), int64_t(9223372036854775807LL)});
  if (has21) {
    const __nv_bfloat16 t0 = q21_0;  // x
    a21 = fb::Sum::combine(a21, fb::cast<float>(t0));
  }
  fb::reduce_row_in_cluster<kThreadsPerRow, kCluster>(phase, fb::accumulator<fb::ExpSum<float>>(a5),
      fb::accumulator<lambdas::builtin_argmax_float>(a14), fb::accumulator<fb::Sum>(a21));
  const float t5 = a5.v0;  // top_reduced, batches_cluster.yaml:7
  const float t6 = a5.v1;  // total_reduced, batches_cluster.yaml:7
  const int64_t t15 = a14.v1;  // largest_reduced, batches_cluster.yaml:8
  const float t21 = a21;  // there_sum, batches_cluster.yaml:10

  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = start + c * kStep;
    if (col >= columns) break;
    const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(c0[c]);
    const int h19 = fb::place_in<kVec>(t1, col);
    const int h26 = fb::place_in<kVec>(t15, col);
    fb::Vec<float, kVec> o30;
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const __nv_bfloat16 t0 = v0[k];
      const bool t19 = h19 == k;  // is_there, batches_cluster.yaml:9
      const bool t26 = h26 == k;  // batches_cluster.yaml:11
      const float t23 = fb::cast<float>(t0) - t5;  // batches_cluster.yaml:11
      const float t24 = fb::exp(t23);  // batches_cluster.yaml:11
      const float t25 = t24 / t6;  // batches_cluster.yaml:11
      const float t27 = fb::where(t26, t21, 0.0f);  // batches_cluster.yaml:11
      const float t28 = t25 + t27;  // batches_cluster.yaml:11
      const float t29 = fb::cast<float>(t19);  // batches_cluster.yaml:11
      const float t30 = t28 - t29;  // y, batches_cluster.yaml:11
      o30[k] = t30;
    }
    fb::store(r30 + col, o30);
  }

  if (rank == 0 && lane == 0) {
    T16[row] = t15;
  }
}

FUSEBUILD_CLUSTER_ENTRY(inner_persistent_b8d8665c26e16c4a, kCluster)
