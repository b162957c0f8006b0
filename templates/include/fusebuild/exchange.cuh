// A reduction across the threads of a row in two halves: each warp leaves its partial results, and takes up
// those of all warps when it has done something else, so that none waits unless another is that far behind
// (sm_90 and later). Every result is combined in one fixed order, so it is bitwise the same from run to run
// and in all threads.

#pragma once

#include "fusebuild/reduce.cuh"

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

// All threads of the block must call this before the first row, and once.
template <int kThreadsPerRow>
FUSEBUILD_DEVICE ExchangePhase prepare_exchange() {
  static_assert(is_power_of_two(kThreadsPerRow) && kThreadsPerRow >= kWarpThreads && kThreadsPerRow <= 1024,
                "threads per row: a power of two from 32 to 1024");
  if (thread_x() == 0) prepare_arrivals(exchange_barriers(), kThreadsPerRow / kWarpThreads);
  sync_block();
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

// Leaves `values`, which are numbered from first_value on, combined over the lanes of the warp.
template <typename Layout, typename Op, typename T, int kValues>
FUSEBUILD_DEVICE void leave_values(unsigned char* storage, int first_value, const T (&values)[kValues]) {
  using Groups = LaneGroups<kValues>;
  T shared[Groups::kGroups];
  FUSEBUILD_UNROLL
  for (int k = 0; k < Groups::kGroups; ++k) shared[k] = values[k < kValues ? k : 0];
  const T combined = combine_in_groups<Op>(shared);
  const int group = thread_x() % kWarpThreads / Groups::kLanes;
  if (thread_x() % Groups::kLanes == 0 && group < kValues) {
    *Layout::template at<T>(storage, first_value + group, thread_x() / kWarpThreads) = combined;
  }
}

// Combines what kWarps warps left; all lanes get all values.
template <typename Layout, int kWarps, typename Op, typename T, int kValues>
FUSEBUILD_DEVICE void take_values(unsigned char* storage, int first_value, T (&values)[kValues]) {
  using Groups = LaneGroups<kValues>;
  constexpr int kWidth = smaller(kWarps, Groups::kLanes);
  const int group = thread_x() % kWarpThreads / Groups::kLanes;
  const int value = first_value + (group < kValues ? group : 0), slot = thread_x() % kWidth;
  T combined = *Layout::template at<T>(storage, value, slot);
  FUSEBUILD_UNROLL
  for (int s = kWidth; s < kWarps; s += kWidth) {
    const T& partial = *Layout::template at<T>(storage, value, slot + s);
    combined = Op::combine(combined, partial);
  }
  reduce_lanes<kWidth, 1>(accumulator<Op>(combined));
  FUSEBUILD_UNROLL
  for (int k = 0; k < kValues; ++k)
    values[k] = kValues == 1 ? combined : shuffle_index(combined, k * Groups::kLanes);
}

template <typename Layout>
struct LeaveEach {
  unsigned char* storage;

  template <typename Op, typename T, int N>
  FUSEBUILD_DEVICE void operator()(const Accumulator<Op, T, N>& accumulator, int number) const {
    FUSEBUILD_UNROLL
    for (int k = 0; k < N; ++k) {
      const T value[1] = {accumulator.values[k]};
      leave_values<Layout, Op>(storage, number + k, value);
    }
  }
};

template <typename Layout, int kWarps>
struct TakeEach {
  unsigned char* storage;

  template <typename Op, typename T, int N>
  FUSEBUILD_DEVICE void operator()(const Accumulator<Op, T, N>& accumulator, int number) const {
    FUSEBUILD_UNROLL
    for (int k = 0; k < N; ++k) {
      T value[1];
      take_values<Layout, kWarps, Op>(storage, number + k, value);
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

template <typename Layout, typename Op, typename T, int... kCounts>
FUSEBUILD_DEVICE void leave_together(unsigned char* storage,
                                     const Accumulator<Op, T, kCounts>&... accumulators) {
  T values[Layout::kValues];
  visit_each(Collect<T>{values}, 0, accumulators...);
  leave_values<Layout, Op>(storage, 0, values);
}

template <typename Layout, int kWarps, typename Op, typename T, int... kCounts>
FUSEBUILD_DEVICE void take_together(unsigned char* storage,
                                    const Accumulator<Op, T, kCounts>&... accumulators) {
  T values[Layout::kValues];
  take_values<Layout, kWarps, Op>(storage, 0, values);
  visit_each(Distribute<T>{values}, 0, accumulators...);
}

// --- The two halves, for a block of (kThreadsPerRow, 1, 1) that reduces one row after another. All threads
// of the block must call both, with the same accumulators and ExchangePhase: as often one as the other, and
// never so that more than two rows are left and not taken up.

template <int kThreadsPerRow, typename... Accumulators>
FUSEBUILD_DEVICE void begin_reduce_row(ExchangePhase& phase, const Accumulators&... accumulators) {
  using Layout = Partials<kThreadsPerRow / kWarpThreads, Accumulators...>;
  constexpr int kBytes = kStorageBytes<Layout>;
  const unsigned buffer = phase.left % kExchangeBuffers;
  unsigned char* storage = exchange_storage<kBytes>() + buffer * kBytes;
  if constexpr (kShareLanes<Accumulators...>) {
    leave_together<Layout>(storage, accumulators...);
  } else {
    visit_each(LeaveEach<Layout>{storage}, 0, accumulators...);
  }
  sync_warp();
  if (thread_x() % kWarpThreads == 0) arrive(exchange_barriers()[buffer]);
  phase.left = ExchangePhase::after(phase.left);
}

// Every thread gets the same bits.
template <int kThreadsPerRow, typename... Accumulators>
FUSEBUILD_DEVICE void finish_reduce_row(ExchangePhase& phase, const Accumulators&... accumulators) {
  constexpr int kWarps = kThreadsPerRow / kWarpThreads;
  using Layout = Partials<kWarps, Accumulators...>;
  constexpr int kBytes = kStorageBytes<Layout>;
  const unsigned buffer = phase.taken % kExchangeBuffers;
  unsigned char* storage = exchange_storage<kBytes>() + buffer * kBytes;
  wait_transfers(exchange_barriers()[buffer], static_cast<int>(phase.taken / kExchangeBuffers));
  if constexpr (kShareLanes<Accumulators...>) {
    take_together<Layout, kWarps>(storage, accumulators...);
  } else {
    visit_each(TakeEach<Layout, kWarps>{storage}, 0, accumulators...);
  }
  phase.taken = ExchangePhase::after(phase.taken);
}

}  // namespace fusebuild
