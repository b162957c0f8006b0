// Reductions that the blocks of a cluster share, of which the first one has the results (sm_90 and later):
// whether a launch has clusters, a call decides. Every result is combined in one fixed order.

#pragma once

#include "fusebuild/cluster.cuh"
#include "fusebuild/reduce_shaped.cuh"

namespace fusebuild {

// Replaces what all blocks have of a value by one, in the slot of the first. Each thread does so for some.
template <typename Layout>
struct CombineBlocks {
  unsigned char* storage;
  int width, threads;

  template <typename Op, typename T, int N>
  FUSEBUILD_DEVICE void operator()(const Accumulator<Op, T, N>&, int number) const {
    for (int own = thread_x(); own < N * width; own += threads) {
      const int value = number * width + own;
      T combined;
      CombineAllSlots<Layout, kMaxClusterBlocks>{storage, 0}(accumulator<Op>(combined), value);
      *Layout::template at<T>(storage, value, 0) = combined;
    }
  }
};

// Sends the values of column `x`, of `width`, to the slot of the calling block in the first one.
template <typename Layout>
struct SendColumn {
  PeerAddress storage, barrier;
  int x, width, slot;

  template <typename Op, typename T, int N>
  FUSEBUILD_DEVICE void operator()(const Accumulator<Op, T, N>& accumulator, int number) const {
    FUSEBUILD_UNROLL
    for (int k = 0; k < N; ++k)
      send_value(storage + Layout::offset((number + k) * width + x, slot), accumulator.values[k], barrier);
  }
};

// Combines across a cluster of kMaxClusterBlocks blocks, which join it here, what those of its threads have
// that are in row 0 of `width` columns, kWidest at most: a thread is at `x` of row `y`. Returns whether the
// block is the first, where these threads have the results then. All threads of the cluster must call this,
// once in a kernel; a block that is not the first may return, since nobody sends it anything.
template <int kThreads, int kWidest, typename... Accumulators>
FUSEBUILD_DEVICE bool reduce_in_first_block(int x, int y, int width, const Accumulators&... accumulators) {
  using Layout = Partials<kMaxClusterBlocks, Accumulators...>;
  FUSEBUILD_SHARED(unsigned char, storage, kWidest* Layout::kValues* Layout::kBytesPerValue);
  const int rank = rank_in_cluster();
  join_cluster();
  wait_cluster();  // until the first block is there
  if (y == 0) {
    const PeerAddress barrier = barrier_in_peer(transfer_barriers(), 0, 0);
    visit_each(SendColumn<Layout>{in_peer(storage, 0), barrier, x, width, rank}, 0, accumulators...);
  }
  if (rank != 0) return false;
  int bytes = 0;
  visit_each(CountBytes{0, Layout::kValues, bytes}, 0, accumulators...);
  if (thread_x() == 0) expect_transfers(transfer_barriers()[0], kMaxClusterBlocks * width * bytes);
  wait_transfers(transfer_barriers()[0], 0);
  visit_each(CombineBlocks<Layout>{storage, width, kThreads}, 0, accumulators...);
  sync_block();
  if (y == 0) visit_each(ReadShares<Layout>{storage, x, width}, 0, accumulators...);
  return true;
}

// Reduces across the `threads` of a block, a power of two of whole warps and kThreads at most. Every thread
// gets the same bits. All threads of the block must call this, and once in a kernel for each kTurn.
template <int kThreads, int kTurn, typename... Accumulators>
FUSEBUILD_DEVICE void reduce_block_of(int threads, const Accumulators&... accumulators) {
  constexpr int kSlots = kThreads / kWarpThreads;
  using Layout = Partials<kSlots, Accumulators...>;
  FUSEBUILD_SHARED(unsigned char, storage, kStorageBytes<Layout>);
  reduce_lanes<kWarpThreads, 1>(accumulators...);
  const int warps = threads / kWarpThreads, lane = thread_lane();
  if (lane == 0)
    visit_each(WriteSlot<Layout>{storage, thread_x() / kWarpThreads, 0, Layout::kValues}, 0, accumulators...);
  sync_block();
  visit_each(CombineSlotsApart<Layout, 1, 1>{storage, lane & (warps - 1), 1, 0, Layout::kValues}, 0,
             accumulators...);
  FUSEBUILD_UNROLL
  for (int mask = kSlots / 2; mask > 0; mask /= 2)
    if (mask < warps) (combine_with_lane<kWarpThreads>(accumulators, mask), ...);
}

// The same, or across the kCluster blocks of a cluster with kThreads each, where there is one.
template <int kThreads, int kCluster, int kTurn, typename... Accumulators>
FUSEBUILD_DEVICE void reduce_alone_or_together(ClusterPhase& phase, int64_t cluster,
                                               const Accumulators&... accumulators) {
  if (cluster == 1) {
    reduce_block_of<kThreads, kTurn>(block_threads(), accumulators...);
  } else {
    reduce_row_in_cluster<kThreads, kCluster>(phase, accumulators...);
  }
}

}  // namespace fusebuild
