// A reduction across the blocks of a cluster, which walk one row after another together, in two halves: each
// warp sends its partial results to all the blocks, and takes up those of all warps when it has done
// something else, so that none waits unless another is that far behind (sm_90 and later). Every result is
// combined in one fixed order, so it is bitwise the same from run to run and in all threads of all the
// blocks.

#pragma once

#include "fusebuild/cluster.cuh"

namespace fusebuild {

// Two rows may be left and not taken up. While a warp leaves the second of them, a slow one may still read
// the one that it takes up next, or the one before.
constexpr int kExchangeBuffers = 4;

// The rows that a thread has left and taken up. Buffers take turns, and each of their barriers ends a phase
// of either parity every eighth row.
struct ExchangePhase {
  unsigned left = 0, taken = 0;

  static FUSEBUILD_DEVICE unsigned after(unsigned turn) { return (turn + 1) % (2 * kExchangeBuffers); }
};

using ExchangeBarriers = TransferBarrier[kExchangeBuffers];
FUSEBUILD_DEVICE ExchangeBarriers& exchange_barriers() {
  FUSEBUILD_SHARED(TransferBarrier, barriers, kExchangeBuffers);
  return barriers;
}

// What the two halves share, by the size of a buffer.
template <int kBytes>
using ExchangeStorage = unsigned char[kExchangeBuffers * kBytes];
template <int kBytes>
FUSEBUILD_DEVICE ExchangeStorage<kBytes>& exchange_storage() {
  FUSEBUILD_SHARED(unsigned char, storage, kExchangeBuffers* kBytes);
  return storage;
}

// All threads of the cluster must call this before the first row, and once; before that row they
// wait_cluster.
FUSEBUILD_DEVICE ExchangePhase join_exchange() {
  if (thread_x() == 0) prepare_transfers(exchange_barriers());
  arrive_cluster_early();
  return ExchangePhase{};
}

// --- What all threads load alike a turn before they use it

// The address is one thing to the compiler for each thread: of one that all threads share it would move what
// is loaded to a uniform register at once, and wait for that.
template <typename T>
FUSEBUILD_DEVICE T load_ahead(const T* address) {
  return address[thread_z()];  // which is 0
}

// Says so of a value that the lanes of a warp share.
template <typename T>
FUSEBUILD_DEVICE T uniform(T value) {
  return shuffle_index(value, 0);
}

// --- Values of one functor and type share the lanes of a warp: each group of lanes has one of them

template <typename... Accumulators>
constexpr bool kShareLanes = false;
template <typename Op, typename T, int... kCounts>
constexpr bool kShareLanes<Accumulator<Op, T, kCounts>...> =
    !kIsLambda<Op> && (kCounts + ... + 0) <= kWarpThreads;

template <int kValues>
struct LaneGroups {
  static FUSEBUILD_CONSTEXPR int groups() {
    int count = 1;
    while (count < kValues) count *= 2;
    return count;
  }
  static constexpr int kGroups = groups();
  static constexpr int kLanes = kWarpThreads / kGroups;  // of a group
};

// Combines each of kCount values, a power of two, over the lanes of the warp. At each step half of the lanes
// go on with half of the values, until each group of lanes has one, whose number is the group's.
template <typename Op, typename T, int kCount>
FUSEBUILD_DEVICE T combine_in_groups(T (&values)[kCount]) {
  FUSEBUILD_UNROLL
  for (int half = kCount / 2; half > 0; half /= 2) {
    const int mask = kWarpThreads / kCount * half;
    const bool is_upper = (thread_x() & mask) != 0;
    FUSEBUILD_UNROLL
    for (int k = 0; k < half; ++k) {
      const T lower = values[k], upper = values[k + half];
      values[k] = Op::combine(is_upper ? upper : lower, shuffle_xor(is_upper ? lower : upper, mask));
    }
  }
  reduce_lanes<kWarpThreads / kCount, 1>(accumulator<Op>(values[0]));
  return values[0];
}

// Leaves `values`, which are numbered from first_value on, combined over the lanes of the warp: `place` says
// where.
template <typename Op, typename Place, typename T, int kValues>
FUSEBUILD_DEVICE void leave_values(const Place& place, int first_value, const T (&values)[kValues]) {
  using Groups = LaneGroups<kValues>;
  T shared[Groups::kGroups];
  FUSEBUILD_UNROLL
  for (int k = 0; k < Groups::kGroups; ++k) shared[k] = values[k < kValues ? k : 0];
  const T combined = combine_in_groups<Op>(shared);
  const int group = thread_x() % kWarpThreads / Groups::kLanes;
  if (group < kValues) place.template leave<Groups::kLanes>(first_value + group, combined);
}

// Combines what is in kSlots slots, one of each warp; all lanes get all values.
template <typename Layout, int kSlots, typename Op, typename T, int kValues>
FUSEBUILD_DEVICE void take_values(unsigned char* storage, int first_value, T (&values)[kValues]) {
  using Groups = LaneGroups<kValues>;
  constexpr int kWidth = smaller(kSlots, Groups::kLanes);
  const int group = thread_x() % kWarpThreads / Groups::kLanes;
  const int value = first_value + (group < kValues ? group : 0), slot = thread_x() % kWidth;
  T combined = *Layout::template at<T>(storage, value, slot);
  FUSEBUILD_UNROLL
  for (int s = kWidth; s < kSlots; s += kWidth) {
    const T& partial = *Layout::template at<T>(storage, value, slot + s);
    combined = Op::combine(combined, partial);
  }
  reduce_lanes<kWidth, 1>(accumulator<Op>(combined));
  FUSEBUILD_UNROLL
  for (int k = 0; k < kValues; ++k)
    values[k] = kValues == 1 ? combined : shuffle_index(combined, k * Groups::kLanes);
}

template <typename Place>
struct LeaveEach {
  Place place;

  template <typename Op, typename T, int N>
  FUSEBUILD_DEVICE void operator()(const Accumulator<Op, T, N>& accumulator, int number) const {
    FUSEBUILD_UNROLL
    for (int k = 0; k < N; ++k) {
      const T value[1] = {accumulator.values[k]};
      leave_values<Op>(place, number + k, value);
    }
  }
};

template <typename Layout, int kSlots>
struct TakeEach {
  unsigned char* storage;

  template <typename Op, typename T, int N>
  FUSEBUILD_DEVICE void operator()(const Accumulator<Op, T, N>& accumulator, int number) const {
    FUSEBUILD_UNROLL
    for (int k = 0; k < N; ++k) {
      T value[1];
      take_values<Layout, kSlots, Op>(storage, number + k, value);
      accumulator.values[k] = value[0];
    }
  }
};

template <typename T>
struct Collect {
  T* all;

  template <typename Op, int N>
  FUSEBUILD_DEVICE void operator()(const Accumulator<Op, T, N>& accumulator, int number) const {
    FUSEBUILD_UNROLL
    for (int k = 0; k < N; ++k) all[number + k] = accumulator.values[k];
  }
};

template <typename T>
struct Distribute {
  const T* all;

  template <typename Op, int N>
  FUSEBUILD_DEVICE void operator()(const Accumulator<Op, T, N>& accumulator, int number) const {
    FUSEBUILD_UNROLL
    for (int k = 0; k < N; ++k) accumulator.values[k] = all[number + k];
  }
};

template <typename Layout, typename Place, typename Op, typename T, int... kCounts>
FUSEBUILD_DEVICE void leave_together(const Place& place, const Accumulator<Op, T, kCounts>&... accumulators) {
  T values[Layout::kValues];
  visit_each(Collect<T>{values}, 0, accumulators...);
  leave_values<Op>(place, 0, values);
}

template <typename Layout, int kSlots, typename Op, typename T, int... kCounts>
FUSEBUILD_DEVICE void take_together(unsigned char* storage,
                                    const Accumulator<Op, T, kCounts>&... accumulators) {
  T values[Layout::kValues];
  take_values<Layout, kSlots, Op>(storage, 0, values);
  visit_each(Distribute<T>{values}, 0, accumulators...);
}

// All of a warp's partial results, and those of all warps.
template <typename Layout, typename Place, typename... Accumulators>
FUSEBUILD_DEVICE void leave_row(const Place& place, const Accumulators&... accumulators) {
  if constexpr (kShareLanes<Accumulators...>) {
    leave_together<Layout>(place, accumulators...);
  } else {
    visit_each(LeaveEach<Place>{place}, 0, accumulators...);
  }
}
template <typename Layout, int kSlots, typename... Accumulators>
FUSEBUILD_DEVICE void take_row(unsigned char* storage, const Accumulators&... accumulators) {
  if constexpr (kShareLanes<Accumulators...>) {
    take_together<Layout, kSlots>(storage, accumulators...);
  } else {
    visit_each(TakeEach<Layout, kSlots>{storage}, 0, accumulators...);
  }
}

// A warp's slot of the same buffer of each of the kCluster blocks.
template <typename Layout, int kCluster, int kWarps>
struct SlotOfPeers {
  static constexpr int kBytes = kStorageBytes<Layout>;
  int buffer;

  // By kLanes neighbouring lanes, which share the peers.
  template <int kLanes, typename T>
  FUSEBUILD_DEVICE void leave(int value, const T& partial) const {
    const int slot = cluster_rank<kCluster>() * kWarps + thread_x() / kWarpThreads;
    FUSEBUILD_UNROLL
    for (int first = 0; first < kCluster; first += kLanes) {
      const int peer = first + thread_x() % kLanes;
      if (peer >= kCluster) break;
      const PeerAddress storage = in_peer(exchange_storage<kBytes>(), peer) + buffer * kBytes;
      const PeerAddress barrier = barrier_in_peer(exchange_barriers(), buffer, peer);
      send_value(storage + Layout::offset(value, slot), partial, barrier);
    }
  }
};

// --- The two halves, for blocks of (kThreads, 1, 1). All threads of the cluster must call both, with the
// same accumulators and ExchangePhase: as often one as the other, and never so that more than two rows are
// left and not taken up. A block may return after it has taken up its last row: by then it has what its peers
// send.

template <int kThreads, int kCluster, typename... Accumulators>
FUSEBUILD_DEVICE void begin_reduce_row(ExchangePhase& phase, const Accumulators&... accumulators) {
  static_assert(is_power_of_two(kThreads) && kThreads >= kWarpThreads && kThreads <= 1024,
                "threads per row and block: a power of two from 32 to 1024");
  constexpr int kWarps = kThreads / kWarpThreads;
  using Layout = Partials<kCluster * kWarps, Accumulators...>;
  const int buffer = static_cast<int>(phase.left % kExchangeBuffers);
  expect_slots(exchange_barriers()[buffer], kCluster * kWarps, 0, Layout::kValues, accumulators...);
  leave_row<Layout>(SlotOfPeers<Layout, kCluster, kWarps>{buffer}, accumulators...);
  phase.left = ExchangePhase::after(phase.left);
}

// Every thread of every block gets the same bits.
template <int kThreads, int kCluster, typename... Accumulators>
FUSEBUILD_DEVICE void finish_reduce_row(ExchangePhase& phase, const Accumulators&... accumulators) {
  constexpr int kSlots = kCluster * (kThreads / kWarpThreads);
  using Layout = Partials<kSlots, Accumulators...>;
  constexpr int kBytes = kStorageBytes<Layout>;
  const unsigned buffer = phase.taken % kExchangeBuffers;
  wait_transfers(exchange_barriers()[buffer], static_cast<int>(phase.taken / kExchangeBuffers));
  take_row<Layout, kSlots>(exchange_storage<kBytes>() + buffer * kBytes, accumulators...);
  phase.taken = ExchangePhase::after(phase.taken);
}

}  // namespace fusebuild
