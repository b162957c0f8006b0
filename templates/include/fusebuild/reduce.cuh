// Reductions across the threads of a block. Every result is combined in one fixed order, so it is bitwise the
// same from run to run, and no float atomics are involved.

#pragma once

#include "fusebuild/math.cuh"
#include "fusebuild/vec.cuh"

namespace fusebuild {

// --- What to combine with. combine() is commutative to the bit, so that butterfly shuffles leave the same
// value in every lane.

struct Sum {
  template <typename T>
  static FUSEBUILD_DEVICE T identity() {
    static_assert(!kIsBool<T>, "sum bools as integers");
    return T(0);
  }
  template <typename T>
  static FUSEBUILD_DEVICE T combine(T a, T b) {
    return add(a, b);
  }
};

struct Prod {
  template <typename T>
  static FUSEBUILD_DEVICE T identity() {
    static_assert(!kIsBool<T>, "multiply bools as integers");
    return T(1);
  }
  template <typename T>
  static FUSEBUILD_DEVICE T combine(T a, T b) {
    return mul(a, b);
  }
};

// On bools: whether any is true.
struct Max {
  template <typename T>
  static FUSEBUILD_DEVICE T identity() {
    return kLowest<T>;
  }
  template <typename T>
  static FUSEBUILD_DEVICE T combine(T a, T b) {
    return maximum(a, b);
  }
};

// On bools: whether all are true.
struct Min {
  template <typename T>
  static FUSEBUILD_DEVICE T identity() {
    return kHighest<T>;
  }
  template <typename T>
  static FUSEBUILD_DEVICE T combine(T a, T b) {
    return minimum(a, b);
  }
};

// A lambda of a recipe is such a functor too: its State holds what it accumulates, and its combine() swaps
// its operands up to rounding only. Its identity is the recipe's.
template <typename Op, typename = void>
constexpr bool kIsLambda = false;
template <typename Op>
constexpr bool kIsLambda<Op, std::void_t<typename Op::State>> = true;

// N states of a lambda side by side.
template <typename Op, int N>
struct States {
  typename Op::State data[N];

  FUSEBUILD_DEVICE typename Op::State& operator[](int index) { return data[index]; }
  FUSEBUILD_DEVICE const typename Op::State& operator[](int index) const { return data[index]; }
};

// N copies of `state`.
template <typename Op, int N>
FUSEBUILD_DEVICE States<Op, N> states(const typename Op::State& state) {
  States<Op, N> result;
  FUSEBUILD_UNROLL
  for (int k = 0; k < N; ++k) result[k] = state;
  return result;
}

// --- One thread's part of a reduction: N values in its registers, which the result overwrites

template <typename Op, typename T, int N>
struct Accumulator {
  using Value = T;
  static constexpr int kCount = N;
  static constexpr bool kIsOfStates = kIsLambda<Op>;

  T* values;
};

template <typename Op, typename T>
FUSEBUILD_DEVICE Accumulator<Op, T, 1> accumulator(T& value) {
  return {&value};
}
template <typename Op, typename T, int N>
FUSEBUILD_DEVICE Accumulator<Op, T, N> accumulator(T (&values)[N]) {
  return {values};
}
template <typename Op, typename T, int N>
FUSEBUILD_DEVICE Accumulator<Op, T, N> accumulator(Vec<T, N>& values) {
  return {values.data};
}
template <typename Op, int N>
FUSEBUILD_DEVICE Accumulator<Op, typename Op::State, N> accumulator(States<Op, N>& states) {
  return {states.data};
}

FUSEBUILD_CONSTEXPR bool is_power_of_two(int n) { return n > 0 && (n & (n - 1)) == 0; }
FUSEBUILD_CONSTEXPR int smaller(int a, int b) { return a < b ? a : b; }
template <typename... Sizes>
FUSEBUILD_CONSTEXPR int largest(Sizes... sizes) {
  int result = 0;
  ((result = sizes > result ? sizes : result), ...);
  return result;
}

// --- Across the lanes of a warp

template <int kWidth, typename Op, typename T, int N>
FUSEBUILD_DEVICE void combine_with_lane(const Accumulator<Op, T, N>& accumulator, int mask) {
  FUSEBUILD_UNROLL
  for (int k = 0; k < N; ++k) {
    T& mine = accumulator.values[k];
    const T other = shuffle_xor(mine, mask, kWidth);
    if constexpr (kIsLambda<Op>) {
      // The lower lane is on the left for both, so that both get the same bits. Two copies: a choice between
      // the variables themselves would be one between addresses, and put them into memory.
      T lower = mine, upper = other;
      if (thread_lane() & mask) {
        lower = other;
        upper = mine;
      }
      mine = Op::combine(lower, upper);
    } else {
      mine = Op::combine(mine, other);
    }
  }
}

// Among the lanes of each group of kWidth whose indices agree modulo kStep. The accumulators take each step
// together, so that their shuffles overlap.
template <int kWidth, int kStep, typename... Accumulators>
FUSEBUILD_DEVICE void reduce_lanes(const Accumulators&... accumulators) {
  FUSEBUILD_UNROLL
  for (int mask = kWidth / 2; mask >= kStep; mask /= 2) (combine_with_lane<kWidth>(accumulators, mask), ...);
}

// --- Through shared memory. The values of all accumulators, numbered through, each have kSlots places.

template <int kSlots, typename... Accumulators>
struct Partials {
  static constexpr int kValues = (Accumulators::kCount + ... + 0);
  // As many as the largest value has, made fit for the alignment of each, and whole words.
  static constexpr int kAlignment = largest(4, static_cast<int>(alignof(typename Accumulators::Value))...);
  static constexpr int kLargest = largest(static_cast<int>(sizeof(typename Accumulators::Value))...);
  static constexpr int kValueBytes = (kLargest + kAlignment - 1) / kAlignment * kAlignment;
  static constexpr int kBytesPerValue = kSlots * kValueBytes;

  static FUSEBUILD_DEVICE int offset(int value, int slot) { return (value * kSlots + slot) * kValueBytes; }
  template <typename T>
  static FUSEBUILD_DEVICE T* at(unsigned char* storage, int value, int slot) {
    return reinterpret_cast<T*>(storage + offset(value, slot));
  }
};

// Calls visit(accumulator, number of its first value) for each accumulator.
template <typename Visitor>
FUSEBUILD_DEVICE void visit_each(const Visitor&, int) {}
template <typename Visitor, typename First, typename... Rest>
FUSEBUILD_DEVICE void visit_each(const Visitor& visit, int number, const First& first, const Rest&... rest) {
  visit(first, number);
  visit_each(visit, number + First::kCount, rest...);
}

template <typename Layout>
struct WriteSlot {
  unsigned char* storage;
  int slot, first_value, last_value;

  template <typename Op, typename T, int N>
  FUSEBUILD_DEVICE void operator()(const Accumulator<Op, T, N>& accumulator, int number) const {
    FUSEBUILD_UNROLL
    for (int k = 0; k < N; ++k) {
      const int value = number + k;
      if (value < first_value || value >= last_value) continue;
      *Layout::template at<T>(storage, value - first_value, slot) = accumulator.values[k];
    }
  }
};

template <typename Layout>
struct CombineSlot {
  unsigned char* storage;
  int slot, first_value, last_value;

  template <typename Op, typename T, int N>
  FUSEBUILD_DEVICE void operator()(const Accumulator<Op, T, N>& accumulator, int number) const {
    FUSEBUILD_UNROLL
    for (int k = 0; k < N; ++k) {
      const int value = number + k;
      if (value < first_value || value >= last_value) continue;
      T& mine = accumulator.values[k];
      mine = Op::combine(mine, *Layout::template at<T>(storage, value - first_value, slot));
    }
  }
};

// Replaces each value by all of kCount slots combined. In four interleaved chains: that keeps dependencies
// short and registers few.
template <typename Layout, int kCount>
struct CombineAllSlots {
  unsigned char* storage;
  int first_slot;

  template <typename Op, typename T, int N>
  FUSEBUILD_DEVICE void operator()(const Accumulator<Op, T, N>& accumulator, int number) const {
    constexpr int kChains = smaller(4, kCount);
    FUSEBUILD_UNROLL
    for (int k = 0; k < N; ++k) {
      T chains[kChains];
      FUSEBUILD_UNROLL
      for (int s = 0; s < kChains; ++s)
        chains[s] = *Layout::template at<T>(storage, number + k, first_slot + s);
      FUSEBUILD_UNROLL
      for (int s = kChains; s < kCount; ++s) {
        const T& partial = *Layout::template at<T>(storage, number + k, first_slot + s);
        chains[s % kChains] = Op::combine(chains[s % kChains], partial);
      }
      FUSEBUILD_UNROLL
      for (int half = kChains / 2; half > 0; half /= 2) {
        FUSEBUILD_UNROLL
        for (int s = 0; s < half; ++s) chains[s] = Op::combine(chains[s], chains[s + half]);
      }
      accumulator.values[k] = chains[0];
    }
  }
};

// --- Rows: threads that are consecutive in thread_x()

template <int kThreadsPerRow, int kRowsPerBlock, typename... Accumulators>
using RowPartials = Partials<kThreadsPerRow / kWarpThreads * kRowsPerBlock, Accumulators...>;

// Every warp writes its partial results; after one barrier, every thread combines those of its row.
template <int kThreadsPerRow, int kRowsPerBlock, typename... Accumulators>
FUSEBUILD_DEVICE void exchange_warps(unsigned char* storage, const Accumulators&... accumulators) {
  constexpr int kWarpsPerRow = kThreadsPerRow / kWarpThreads;
  using Layout = RowPartials<kThreadsPerRow, kRowsPerBlock, Accumulators...>;
  if (thread_x() % kWarpThreads == 0) {
    visit_each(WriteSlot<Layout>{storage, thread_x() / kWarpThreads, 0, Layout::kValues}, 0, accumulators...);
  }
  sync_block();
  const int first_slot = thread_x() / kThreadsPerRow * kWarpsPerRow;
  visit_each(CombineAllSlots<Layout, kWarpsPerRow>{storage, first_slot}, 0, accumulators...);
}

template <typename Layout>
constexpr int kStorageBytes = (Layout::kValues * Layout::kBytesPerValue + 15) / 16 * 16;

// Alternates the buffers of successive row reductions, which saves each of them a barrier: two calls that use
// the same buffer have another call, and so a barrier, between them. One object serves all row reductions of
// a kernel; the compiler folds it away in straight-line code and keeps it in a register in a loop.
struct ReducePhase {
  int parity = 0;
};

template <int kThreadsPerRow, int kRowsPerBlock>
struct CheckRowShape {
  static_assert(is_power_of_two(kThreadsPerRow) && kThreadsPerRow <= 1024,
                "threads per row: a power of two to 1024");
  static_assert(kRowsPerBlock > 0 && kThreadsPerRow * kRowsPerBlock <= 1024,
                "a block has at most 1024 threads");
  static constexpr int kLanes = smaller(kThreadsPerRow, kWarpThreads);
};

// Reduces across the kThreadsPerRow threads of each row of a (kThreadsPerRow * kRowsPerBlock, 1, 1) block.
// Every thread of a row gets the same bits. All threads of the block must call this. Safe to call back to
// back: rows within a warp use shuffles alone, longer ones two barriers, however many accumulators there are.
template <int kThreadsPerRow, int kRowsPerBlock, typename... Accumulators>
FUSEBUILD_DEVICE void reduce_row(const Accumulators&... accumulators) {
  reduce_lanes<CheckRowShape<kThreadsPerRow, kRowsPerBlock>::kLanes, 1>(accumulators...);
  if constexpr (kThreadsPerRow > kWarpThreads) {
    constexpr int kBytes = kStorageBytes<RowPartials<kThreadsPerRow, kRowsPerBlock, Accumulators...>>;
    FUSEBUILD_SHARED(unsigned char, storage, kBytes);
    sync_block();  // whoever still reads the previous call's partials
    exchange_warps<kThreadsPerRow, kRowsPerBlock>(storage, accumulators...);
  }
}

// The same with one barrier instead of two.
template <int kThreadsPerRow, int kRowsPerBlock, typename... Accumulators>
FUSEBUILD_DEVICE void reduce_row(ReducePhase& phase, const Accumulators&... accumulators) {
  reduce_lanes<CheckRowShape<kThreadsPerRow, kRowsPerBlock>::kLanes, 1>(accumulators...);
  if constexpr (kThreadsPerRow > kWarpThreads) {
    constexpr int kBytes = kStorageBytes<RowPartials<kThreadsPerRow, kRowsPerBlock, Accumulators...>>;
    FUSEBUILD_SHARED(unsigned char, storage, 2 * kBytes);
    exchange_warps<kThreadsPerRow, kRowsPerBlock>(storage + phase.parity * kBytes, accumulators...);
    phase.parity ^= 1;
  }
}

// --- Columns: threads with the same thread_x()

constexpr int kColumnStorageBytes = 16 * 1024;

// Reduces across y in a block of kBlockX * kBlockY threads, both powers of two, where thread number
// y * kBlockX + x is at `x` and `y`. Threads with y == 0 get the results; in other threads the accumulators
// hold leftovers. All threads of the block must call this. Safe to call back to back.
//
// Lanes of one warp that share x meet by shuffles; then the rows that are left halve their number at each
// barrier. The barriers are shared by as many values as fit in kColumnStorageBytes of static shared memory.
template <int kBlockX, int kBlockY, typename... Accumulators>
FUSEBUILD_DEVICE void reduce_columns_at(int x, int y, const Accumulators&... accumulators) {
  static_assert(is_power_of_two(kBlockX) && is_power_of_two(kBlockY), "block sizes: powers of two");
  static_assert(kBlockX * kBlockY <= 1024, "a block has at most 1024 threads");
  constexpr int kWidth = smaller(kBlockX * kBlockY, kWarpThreads);
  constexpr int kRowsPerWarp = kBlockX < kWidth ? kWidth / kBlockX : 1;
  constexpr int kRows = kBlockY / kRowsPerWarp;
  reduce_lanes<kWidth, smaller(kBlockX, kWidth)>(accumulators...);
  if constexpr (kRows > 1) {
    using Layout = Partials<(kRows - 1) * kBlockX, Accumulators...>;
    constexpr int kValuesAtOnce = smaller(Layout::kValues, kColumnStorageBytes / Layout::kBytesPerValue);
    constexpr int kBytes = kValuesAtOnce * Layout::kBytesPerValue;
    FUSEBUILD_SHARED(unsigned char, storage, kBytes);
    const bool has_row = y % kRowsPerWarp == 0;
    const int row = has_row ? y / kRowsPerWarp : kRows;  // kRows: takes part in barriers only
    FUSEBUILD_UNROLL
    for (int first = 0; first < Layout::kValues; first += kValuesAtOnce) {
      const int last = first + kValuesAtOnce < Layout::kValues ? first + kValuesAtOnce : Layout::kValues;
      sync_block();  // whoever still reads what was here before
      FUSEBUILD_UNROLL
      for (int half = kRows / 2; half > 0; half /= 2) {
        // Each round has slots of its own, rows [half - 1, 2 * half - 1), and so needs just one barrier.
        const int slot = (half - 1 + row % half) * kBlockX + x;
        if (row >= half && row < 2 * half) {
          visit_each(WriteSlot<Layout>{storage, slot, first, last}, 0, accumulators...);
        }
        sync_block();
        if (row < half) visit_each(CombineSlot<Layout>{storage, slot, first, last}, 0, accumulators...);
      }
    }
  }
}

// The same in a (kBlockX, kBlockY, 1) block.
template <int kBlockX, int kBlockY, typename... Accumulators>
FUSEBUILD_DEVICE void reduce_columns(const Accumulators&... accumulators) {
  reduce_columns_at<kBlockX, kBlockY>(thread_x(), thread_y(), accumulators...);
}

}  // namespace fusebuild
