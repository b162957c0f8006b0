// staged_rows.yaml, segment 1: inner_persistent, variant staged1_vec8_int32
// segment fids to original fids: {0: 4, 4: 16, 14: 23}
// schedule: threads.per_row=256 threads.rows=1 storage=staged chunks=8 cached=[0] kept=[] cluster=1 stages=2
//   walkers=264
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreadsPerRow = 256;
constexpr int kRowsPerBlock = 1;
constexpr int kVec = 8;  // neighbouring elements per access
constexpr int kChunks = 8;  // vectors of a row that a thread holds
constexpr int kStages = 2;  // rows on their way into shared memory while one is worked on
constexpr int kPlaces = kStages * kChunks * kThreadsPerRow;  // for their vectors, each that of one thread

FUSEBUILD_KERNEL(kThreadsPerRow * kRowsPerBlock, 2)
inner_persistent_360f50583a7fa82d(
    const __half* __restrict__ T0,  // alone: half[A, N]
    float* __restrict__ T4,  // m: float[A, 1]
    __half* __restrict__ T14,  // normed: half[A, N]
    int64_t s1,  // N
    int64_t n0,  // A
    int64_t n1) {  // N
  const int64_t rows = n0;
  const Index columns = n1;
  const int lane = fb::thread_x() % kThreadsPerRow;
  const int64_t first = fb::block_x(), step = fb::grid_x();
  fb::Packed<__half, kVec>* p0 = fb::dynamic_shared<fb::Packed<__half, kVec>>();

  // The first rows.
  for (int stage = 0; stage < kStages; ++stage) {
    const int64_t next = first + stage * step;
    if (next < rows) {
      const __half* q0 = T0 + next * n1;
      FUSEBUILD_UNROLL
      for (int c = 0; c < kChunks; ++c) {
        const Index col = (Index(c) * kThreadsPerRow + lane) * kVec;
        if (col >= columns) break;
        fb::copy_async(p0 + (stage * kChunks + c) * kThreadsPerRow + lane, q0 + col);
      }
    }
    fb::end_copies();
  }
  fb::ReducePhase phase;

  int stage = 0;
  for (int64_t row = first; row < rows; row += step) {
    __half* r14 = T14 + row * n1;
    fb::Packed<__half, kVec> c0[kChunks];

    // The oldest of the rows on their way is the one at hand; another takes its places.
    fb::wait_copies<kStages - 1>();
    FUSEBUILD_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      const Index col = (Index(c) * kThreadsPerRow + lane) * kVec;
      if (col >= columns) break;
      c0[c] = p0[(stage * kChunks + c) * kThreadsPerRow + lane];
    }
    const int64_t next = row + kStages * step;
    if (next < rows) {
      const __half* q0 = T0 + next * n1;
      FUSEBUILD_UNROLL
      for (int c = 0; c < kChunks; ++c) {
        const Index col = (Index(c) * kThreadsPerRow + lane) * kVec;
        if (col >= columns) break;
        fb::copy_async(p0 + (stage * kChunks + c) * kThreadsPerRow + lane, q0 + col);
      }
    }
    fb::end_copies();
    stage = stage + 1 < kStages ? stage + 1 : 0;

    float a2 = fb::Sum::identity<float>();
    FUSEBUILD_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      const Index col = (Index(c) * kThreadsPerRow + lane) * kVec;
      if (col >= columns) break;
      const fb::Vec<__half, kVec> v0 = fb::unpack(c0[c]);
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __half t0 = v0[k];
        a2 = fb::Sum::combine(a2, fb::cast<float>(t0));
      }
    }
    fb::reduce_row<kThreadsPerRow, kRowsPerBlock>(phase, fb::accumulator<fb::Sum>(a2));
    const float t2 = a2;  // m_sum, staged_rows.yaml:18
    const float t3 = t2 / fb::cast<float>(s1);  // m_reduced, staged_rows.yaml:18

    float a7 = fb::Sum::identity<float>();
    FUSEBUILD_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      const Index col = (Index(c) * kThreadsPerRow + lane) * kVec;
      if (col >= columns) break;
      const fb::Vec<__half, kVec> v0 = fb::unpack(c0[c]);
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __half t0 = v0[k];
        const float t5 = fb::cast<float>(t0) - t3;  // v_centered, staged_rows.yaml:18
        const float t6 = t5 * t5;  // v_squares, staged_rows.yaml:18
        a7 = fb::Sum::combine(a7, t6);
      }
    }
    fb::reduce_row<kThreadsPerRow, kRowsPerBlock>(phase, fb::accumulator<fb::Sum>(a7));
    const float t7 = a7;  // v_sum, staged_rows.yaml:18
    const float t8 = t7 / fb::cast<float>(s1);  // v_reduced, staged_rows.yaml:18
    const float t11 = t8 + 1e-05f;  // staged_rows.yaml:19
    const float t12 = fb::rsqrt(t11);  // staged_rows.yaml:19

    FUSEBUILD_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      const Index col = (Index(c) * kThreadsPerRow + lane) * kVec;
      if (col >= columns) break;
      const fb::Vec<__half, kVec> v0 = fb::unpack(c0[c]);
      fb::Vec<__half, kVec> o14;
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __half t0 = v0[k];
        const float t5 = fb::cast<float>(t0) - t3;  // v_centered, staged_rows.yaml:18
        const float t13 = t5 * t12;  // normed, staged_rows.yaml:19
        const __half t14 = fb::cast<__half>(t13);  // staged_rows.yaml:24
        o14[k] = t14;
      }
      fb::store(r14 + col, o14);
    }

    if (lane == 0) {
      T4[row] = t3;
    }
  }
}

FUSEBUILD_ENTRY(inner_persistent_360f50583a7fa82d)
