// cluster_levels.yaml, segment 1: inner_persistent, variant staged2_vec4_int32
// segment fids to original fids: {0: 4, 4: 34}
// schedule: threads.per_row=512 threads.rows=1 storage=staged chunks=8 cached=[0] kept=[] cluster=2 stages=2 walkers=66
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreadsPerRow = 512;
constexpr int kCluster = 2;  // neighbouring blocks, which walk rows together
constexpr int kVec = 4;  // neighbouring elements per access
constexpr int kChunks = 8;  // vectors of a row that a thread holds
constexpr int kStages = 2;  // rows on their way into shared memory while one is worked on
constexpr int kPlaces = kStages * kChunks * kThreadsPerRow;  // for their vectors, each that of one thread

FUSEBUILD_CLUSTER_KERNEL(kThreadsPerRow, 1, kCluster)
inner_persistent_a5251bda729550c7(
    const float* __restrict__ T0,  // z: float[300, 100]
    float* __restrict__ T4) {  // of_z: float[300, 100]
  fb::ClusterPhase phase = fb::join_cluster();
  const int64_t rows = 1;
  const Index columns = 30000;
  const int rank = fb::cluster_rank<kCluster>();
  const int lane = fb::thread_x() % kThreadsPerRow;
  const int64_t first = fb::block_x() / kCluster, step = fb::grid_x() / kCluster;
  fb::Packed<float, kVec>* p0 = fb::dynamic_shared<fb::Packed<float, kVec>>();

  // The first rows.
  for (int stage = 0; stage < kStages; ++stage) {
    const int64_t next = first + stage * step;
    if (next < rows) {
      const float* q0 = T0;
      FUSEBUILD_UNROLL
      for (int c = 0; c < kChunks; ++c) {
        const Index col = ((Index(c) * kCluster + rank) * kThreadsPerRow + lane) * kVec;
        if (col >= columns) break;
        fb::copy_async(p0 + (stage * kChunks + c) * kThreadsPerRow + lane, q0 + col);
      }
    }
    fb::end_copies();
  }
  fb::meet_cluster(phase);

  int stage = 0;
  for (int64_t row = first; row < rows; row += step) {
    float* r4 = T4;
    fb::Packed<float, kVec> c0[kChunks];

    // The oldest of the rows on their way is the one at hand; another takes its places.
    fb::wait_copies<kStages - 1>();
    FUSEBUILD_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      const Index col = ((Index(c) * kCluster + rank) * kThreadsPerRow + lane) * kVec;
      if (col >= columns) break;
      c0[c] = p0[(stage * kChunks + c) * kThreadsPerRow + lane];
    }
    const int64_t next = row + kStages * step;
    if (next < rows) {
      const float* q0 = T0;
      FUSEBUILD_UNROLL
      for (int c = 0; c < kChunks; ++c) {
        const Index col = ((Index(c) * kCluster + rank) * kThreadsPerRow + lane) * kVec;
        if (col >= columns) break;
        fb::copy_async(p0 + (stage * kChunks + c) * kThreadsPerRow + lane, q0 + col);
      }
    }
    fb::end_copies();
    stage = stage + 1 < kStages ? stage + 1 : 0;

    float a2 = fb::Max::identity<float>();
    FUSEBUILD_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      const Index col = ((Index(c) * kCluster + rank) * kThreadsPerRow + lane) * kVec;
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
      const Index col = ((Index(c) * kCluster + rank) * kThreadsPerRow + lane) * kVec;
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
}

FUSEBUILD_CLUSTER_ENTRY(inner_persistent_a5251bda729550c7, kCluster)
