// cluster_levels.yaml, segment 1: inner_persistent, variant cluster2_vec4_int32
// segment fids to original fids: {0: 4, 4: 34}
// schedule: threads.per_row=512 threads.rows=1 storage=cluster chunks=8 cached=[0] kept=[] early=[] cluster=2 ahead=0
// launch: segment 1, cluster2_vec4_int32 on sm_90: grid 2, 1, 1; block 512, 1, 1; overlaps what is before; given z,
//   of_z; if aligned(z, 16), aligned(of_z, 16)
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreadsPerRow = 512;
constexpr int kCluster = 2;  // neighbouring blocks, which walk a row together
constexpr int kVec = 4;  // neighbouring elements per access
constexpr int kChunks = 8;  // vectors of a row that a thread holds
constexpr int kStep = kCluster * kThreadsPerRow * kVec;  // columns from one of them to the next

FUSEBUILD_CLUSTER_KERNEL(kThreadsPerRow, 2, kCluster)
inner_persistent_58c3f2448f61dcfc(
    const float* T0,  // z: float[300, 100]
    float* __restrict__ T4) {  // of_z: float[300, 100]
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  fb::ClusterPhase phase = fb::join_cluster();
  const Index columns = 30000;
  const int rank = fb::cluster_rank<kCluster>();
  const int lane = fb::thread_x();
  const Index start = (rank * kThreadsPerRow + lane) * kVec;  // of the thread's first vector
  const float* r0 = T0;
  float* r4 = T4;
  fb::Packed<float, kVec> c0[kChunks];

  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = start + c * kStep;
    if (col >= columns) break;
    c0[c] = fb::load_packed<kVec>(r0 + col);
  }

  float a2 = fb::Max::identity<float>();
  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = start + c * kStep;
    if (col >= columns) break;
    const fb::Vec<float, kVec> v0 = fb::unpack(c0[c]);
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const float t0 = v0[k];
      const float t1 = fb::abs(t0);  // cluster_levels.yaml:21
      a2 = fb::Max::combine(a2, t1);
    }
  }
  fb::reduce_row_in_cluster<kThreadsPerRow, kCluster>(phase, fb::accumulator<fb::Max>(a2));
  const float t2 = a2;  // cluster_levels.yaml:21

  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = start + c * kStep;
    if (col >= columns) break;
    const fb::Vec<float, kVec> v0 = fb::unpack(c0[c]);
    fb::Vec<float, kVec> o4;
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const float t0 = v0[k];
      const float t4 = t0 / t2;  // of_z, cluster_levels.yaml:21
      o4[k] = t4;
    }
    fb::store(r4 + col, o4);
  }
}

FUSEBUILD_CLUSTER_ENTRY(inner_persistent_58c3f2448f61dcfc, kCluster)
