// Reductions across the blocks of a cluster, which walk one row together (sm_90 and later). Every result is
// combined in one fixed order, so it is bitwise the same from run to run and in all threads of all the
// blocks.

#pragma once

#include "fusebuild/reduce.cuh"

namespace fusebuild {

// Whether so many blocks may run together.
template <int kCluster>
constexpr bool kIsCluster = is_power_of_two(kCluster) && kCluster >= 2 && kCluster <= kMaxClusterBlocks;

// The caller's block among the kCluster neighbours along x that run together.
template <int kCluster>
FUSEBUILD_DEVICE int cluster_rank() {
  static_assert(kIsCluster<kCluster>, "blocks per cluster: 2, 4 or 8");
  return block_x() % kCluster;
}

// As sync_block, for all threads of all blocks of the cluster.
FUSEBUILD_DEVICE void sync_cluster() {
  arrive_cluster();
  wait_cluster();
}

// What successive reductions of a kernel share. They take turns with two buffers and their barriers, each of
// which ends a phase of either parity every fourth turn; and only the first waits for the peers to have
// started. The compiler folds it away in straight-line code.
struct ClusterPhase {
  int turn = 0;
  bool has_met = false;
};

using TransferBarriers = TransferBarrier[2];
FUSEBUILD_DEVICE TransferBarriers& transfer_barriers() {
  FUSEBUILD_SHARED(TransferBarrier, barriers, 2);
  return barriers;
}

// Two buffers, which all reductions of a kernel that need so much share.
template <int kBytes>
using ClusterBuffers = unsigned char[2 * kBytes];
template <int kBytes>
FUSEBUILD_DEVICE ClusterBuffers<kBytes>& cluster_buffers() {
  FUSEBUILD_SHARED(unsigned char, buffers, 2 * kBytes);
  return buffers;
}

constexpr int kClusterBufferBytes = 8 * 1024;

// The size of a buffer for so much: one of few sizes, so that reductions share.
FUSEBUILD_CONSTEXPR int buffer_bytes(int needed) {
  int bytes = 512;
  while (bytes < needed) bytes *= 2;
  return bytes;
}

// Says that the caller's block has started; the first reduction waits for its peers to say so too. Whatever
// is done between the two, such as loading the row, hides the wait. All threads of the cluster must call this
// first, and once.
FUSEBUILD_DEVICE ClusterPhase join_cluster() {
  if (thread_x() == 0) prepare_transfers(transfer_barriers());
  arrive_cluster_early();
  return ClusterPhase{};
}

// Waits until all blocks of the cluster have started. The first reduction does so where nobody did before; a
// kernel that reduces in a loop calls this ahead of it.
FUSEBUILD_DEVICE void meet_cluster(ClusterPhase& phase) {
  if (!phase.has_met) wait_cluster();
  phase.has_met = true;
}

template <typename T>
constexpr int kWordsOf = (sizeof(T) + 3) / 4;

// Sends a value, four bytes at a time.
template <typename T>
FUSEBUILD_DEVICE void send_value(PeerAddress place, const T& value, PeerAddress barrier) {
  constexpr int kWords = kWordsOf<T>;
  unsigned words[kWords] = {};
  memcpy(words, &value, sizeof(T));
  FUSEBUILD_UNROLL
  for (int w = 0; w < kWords; ++w) send_word(place + 4 * w, words[w], barrier);
}

// Sends the values to a slot of a peer.
template <typename Layout>
struct SendSlot {
  PeerAddress storage, barrier;
  int slot, first_value, last_value;

  template <typename Op, typename T, int N>
  FUSEBUILD_DEVICE void operator()(const Accumulator<Op, T, N>& accumulator, int number) const {
    FUSEBUILD_UNROLL
    for (int k = 0; k < N; ++k) {
      const int value = number + k;
      if (value < first_value || value >= last_value) continue;
      send_value(storage + Layout::offset(value - first_value, slot), accumulator.values[k], barrier);
    }
  }
};

// Replaces each value by those of slots kStep apart combined, the first one at first_slot, in their order: of
// so many `slots`, which are kMost or fewer.
template <typename Layout, int kMost, int kStep>
struct CombineSlotsApart {
  unsigned char* storage;
  int first_slot, slots, first_value, last_value;

  template <typename Op, typename T, int N>
  FUSEBUILD_DEVICE void operator()(const Accumulator<Op, T, N>& accumulator, int number) const {
    FUSEBUILD_UNROLL
    for (int k = 0; k < N; ++k) {
      const int value = number + k;
      if (value < first_value || value >= last_value) continue;
      T combined = *Layout::template at<T>(storage, value - first_value, first_slot);
      FUSEBUILD_UNROLL
      for (int s = 1; s < kMost / kStep; ++s) {
        const int slot = first_slot + s * kStep;
        if (slot >= slots) break;
        const T& partial = *Layout::template at<T>(storage, value - first_value, slot);
        combined = Op::combine(combined, partial);
      }
      accumulator.values[k] = combined;
    }
  }
};

// Adds up the bytes that a warp sends to each peer.
struct CountBytes {
  int first_value, last_value;
  int& bytes;

  template <typename Op, typename T, int N>
  FUSEBUILD_DEVICE void operator()(const Accumulator<Op, T, N>&, int number) const {
    FUSEBUILD_UNROLL
    for (int value = number; value < number + N; ++value)
      bytes += value >= first_value && value < last_value ? 4 * kWordsOf<T> : 0;
  }
};

// Says that each of so many warps, `slots`, sends these values; for all threads of the block.
template <typename... Accumulators>
FUSEBUILD_DEVICE void expect_slots(TransferBarrier& barrier, int slots, int first_value, int last_value,
                                   const Accumulators&... accumulators) {
  int bytes = 0;
  visit_each(CountBytes{first_value, last_value, bytes}, 0, accumulators...);
  if (thread_x() == 0) expect_transfers(barrier, slots * bytes);
}

// The barrier of this number of a peer.
template <int kCount>
FUSEBUILD_DEVICE PeerAddress barrier_in_peer(TransferBarrier (&mine)[kCount], int number, int peer) {
  return in_peer(mine, peer) + number * static_cast<int>(sizeof(TransferBarrier));
}

// Reduces across the threads of the kCluster blocks, each of so many `threads`, that walk one row:
// kMostThreads or, where all blocks together have as many warps as a warp has lanes, fewer whole warps. All
// threads of the cluster must call this, with the same ClusterPhase. Safe to call back to back, and a block
// may return after its last call: by then it has what its peers send.
//
// Every warp sends its partial results straight into the shared memory of all the blocks; when all have come,
// every warp combines its own block's copy: lanes take every 32nd slot, then they shuffle. Nobody is sent
// partial results for a buffer that it still reads: the results of the turn between come after that.
//
// A turn is shared by as many values as fit in a buffer of static shared memory.
template <int kMostThreads, int kCluster, typename... Accumulators>
FUSEBUILD_DEVICE void reduce_row_of_threads(ClusterPhase& phase, int threads,
                                            const Accumulators&... accumulators) {
  static_assert(kIsCluster<kCluster>, "blocks per cluster: 2, 4 or 8");
  constexpr int kSlots = kCluster * (kMostThreads / kWarpThreads);
  constexpr int kLanes = smaller(kSlots, kWarpThreads);
  using Layout = Partials<kSlots, Accumulators...>;
  static_assert(Layout::kBytesPerValue <= kClusterBufferBytes,
                "a value, once for each warp of the cluster, takes at most 8 KiB");
  constexpr int kValuesAtOnce = smaller(Layout::kValues, kClusterBufferBytes / Layout::kBytesPerValue);
  constexpr int kBytes = buffer_bytes(kValuesAtOnce * Layout::kBytesPerValue);
  auto& storage = cluster_buffers<kBytes>();
  reduce_lanes<kWarpThreads, 1>(accumulators...);
  meet_cluster(phase);
  const int lane = thread_x() % kWarpThreads, warps = threads / kWarpThreads;
  const int slot = rank_in_cluster() * warps + thread_x() / kWarpThreads;
  FUSEBUILD_UNROLL
  for (int first = 0; first < Layout::kValues; first += kValuesAtOnce) {
    const int last = first + kValuesAtOnce < Layout::kValues ? first + kValuesAtOnce : Layout::kValues;
    const int buffer = phase.turn % 2;
    TransferBarrier& barrier = transfer_barriers()[buffer];
    expect_slots(barrier, kCluster * warps, first, last, accumulators...);
    if (lane < kCluster) {
      const PeerAddress theirs = in_peer(storage, lane) + buffer * kBytes;
      const PeerAddress their_barrier = barrier_in_peer(transfer_barriers(), buffer, lane);
      visit_each(SendSlot<Layout>{theirs, their_barrier, slot, first, last}, 0, accumulators...);
    }
    wait_transfers(barrier, phase.turn / 2);
    using Combine = CombineSlotsApart<Layout, kSlots, kLanes>;
    const Combine combine{storage + buffer * kBytes, lane % kLanes, kCluster * warps, first, last};
    visit_each(combine, 0, accumulators...);
    phase.turn = (phase.turn + 1) % 4;
  }
  reduce_lanes<kLanes, 1>(accumulators...);
}

// The same where each block is (kThreadsPerRow, 1, 1).
template <int kThreadsPerRow, int kCluster, typename... Accumulators>
FUSEBUILD_DEVICE void reduce_row_in_cluster(ClusterPhase& phase, const Accumulators&... accumulators) {
  static_assert(is_power_of_two(kThreadsPerRow) && kThreadsPerRow >= kWarpThreads && kThreadsPerRow <= 1024,
                "threads per row and block: a power of two from 32 to 1024");
  reduce_row_of_threads<kThreadsPerRow, kCluster>(phase, kThreadsPerRow, accumulators...);
}

}  // namespace fusebuild
