// Reductions across threads that lie in a block as the sizes of a call have it: their number in each row or
// column is an argument. As in reduce.cuh every result is combined in one fixed order, which follows from
// that number alone.

#pragma once

#include "fusebuild/reduce.cuh"
#include "fusebuild/row_results.cuh"

namespace fusebuild {

// --- Rows: threads that are consecutive in thread_x()

// Replaces each value by `count` slots combined, a power of two and no more than a warp has lanes. States
// take so long to combine that each lane takes one of them, and lanes meet.
template <typename Layout>
struct CombineSlots {
  unsigned char* storage;
  int first_slot, count;

  template <typename Op, typename T, int N>
  FUSEBUILD_DEVICE void operator()(const Accumulator<Op, T, N>& accumulator, int number) const {
    if constexpr (kIsLambda<Op>) {
      const int slot = first_slot + (thread_lane() & (count - 1));
      FUSEBUILD_UNROLL
      for (int k = 0; k < N; ++k) accumulator.values[k] = *Layout::template at<T>(storage, number + k, slot);
      for (int mask = count / 2; mask > 0; mask /= 2) combine_with_lane<kWarpThreads>(accumulator, mask);
    } else {
      FUSEBUILD_UNROLL
      for (int k = 0; k < N; ++k) accumulator.values[k] = combined<Op, T>(number + k);
    }
  }

 private:
  // Four at a time, so that what is read waits for nothing.
  template <typename Op, typename T>
  FUSEBUILD_DEVICE T combined(int number) const {
    T result = *Layout::template at<T>(storage, number, first_slot);
    if (count == 2) return Op::combine(result, *Layout::template at<T>(storage, number, first_slot + 1));
    FUSEBUILD_UNROLL_BY(1)
    for (int s = 0; s < count; s += 4) {
      T slots[4];
      FUSEBUILD_UNROLL
      for (int i = 0; i < 4; ++i) slots[i] = *Layout::template at<T>(storage, number, first_slot + s + i);
      if (s > 0) result = Op::combine(result, slots[0]);
      FUSEBUILD_UNROLL
      for (int i = 1; i < 4; ++i) result = Op::combine(result, slots[i]);
    }
    return result;
  }
};

// Reduces across the `width` threads of each row of a block of kThreads or fewer, all powers of two. Every
// thread of a row gets the same bits. All threads of the block must call this, and once in a kernel for each
// kTurn.
template <int kThreads, int kTurn = 0, typename... Accumulators>
FUSEBUILD_DEVICE void reduce_row_of(int width, const Accumulators&... accumulators) {
  FUSEBUILD_UNROLL
  for (int mask = kWarpThreads / 2; mask > 0; mask /= 2)
    if (mask < width) (combine_with_lane<kWarpThreads>(accumulators, mask), ...);
  if (width <= kWarpThreads) return;
  using Layout = Partials<kThreads / kWarpThreads, Accumulators...>;
  FUSEBUILD_SHARED(unsigned char, storage, kStorageBytes<Layout>);
  if (thread_x() % kWarpThreads == 0) {
    visit_each(WriteSlot<Layout>{storage, thread_x() / kWarpThreads, 0, Layout::kValues}, 0, accumulators...);
  }
  sync_block();
  const int first_slot = (thread_x() & -width) / kWarpThreads;  // width is a power of two
  visit_each(CombineSlots<Layout>{storage, first_slot, width / kWarpThreads}, 0, accumulators...);
}

// As store_rows, where 2 to the power of `row_shift` threads of a (kThreads, 1, 1) block share a row. Of rows
// that have a warp or more, a thread stores its own: they are too few to wait for each other.
template <int kThreads, typename... Values>
FUSEBUILD_DEVICE void store_rows_of(int row_shift, int64_t rows, const RowResult<Values>&... results) {
  using Layout = Partials<kThreads, RowResult<Values>...>;
  constexpr int kBytes = Layout::kValues * Layout::kBytesPerValue;
  FUSEBUILD_SHARED(unsigned char, storage, kBytes);
  const int rows_here = kThreads >> row_shift;
  const bool is_first = (thread_x() & ((1 << row_shift) - 1)) == 0;
  if (1 << row_shift >= kWarpThreads) {
    const int64_t own = int64_t(block_x()) * rows_here + (thread_x() >> row_shift);
    if (is_first && own < rows) ((results.tensor[own] = results.value), ...);
    return;
  }
  int number = 0;
  if (is_first) {
    const int slot = thread_x() >> row_shift;
    ((*Layout::template at<Values>(storage, number++, slot) = results.value), ...);
  }
  sync_block();
  const int64_t row = int64_t(block_x()) * rows_here + thread_x();
  if (thread_x() >= rows_here || row >= rows) return;
  number = 0;
  ((results.tensor[row] = *Layout::template at<Values>(storage, number++, thread_x())), ...);
}

// --- Columns: threads with the same `x`

// Where a thread is in a block of which so many threads lie side by side: at `x` of row `y`, of `height`
// whole rows.
struct Place {
  int x, y, height;
};

// The place of the current thread where `width` threads lie side by side. A thread's number and a half more,
// by the width, is no nearer to an integer than half a part of the width: further than floats are rounded.
template <int kThreads>
FUSEBUILD_DEVICE Place place_of(int width) {
  static_assert(kThreads <= 1024, "a block has at most 1024 threads");
  const float inverse = approximate_reciprocal(static_cast<float>(width));
  const int y = static_cast<int>((static_cast<float>(thread_x()) + 0.5f) * inverse);
  return {thread_x() - y * width, y, static_cast<int>((static_cast<float>(kThreads) + 0.5f) * inverse)};
}

// What a lane has of values that lanes share out: `count` of them from number `first` on, which it is to tell
// if they are its own.
struct Kept {
  int first, count;
  bool is_own;
};

// Combines `values` among the lanes that are a multiple of `width` apart, a power of two, in steps from
// `mask` on: at each a lane gives one half of its values to the lane that keeps those, and keeps the other.
// One value all lanes keep.
template <typename Op, int N, typename T>
FUSEBUILD_DEVICE Kept share_out(T* values, int mask, int width) {
  static_assert(is_power_of_two(N), "values are halved");
  if constexpr (N == 1) {
    int met = 0;
    for (; mask >= width; mask /= 2) {
      combine_with_lane<kWarpThreads>(accumulator<Op>(*values), mask);
      met |= mask;
    }
    return {0, 1, (thread_lane() & met) == 0};
  } else {
    if (mask < width) return {0, N, true};
    const bool is_upper = (thread_lane() & mask) != 0;
    FUSEBUILD_UNROLL
    for (int k = 0; k < N / 2; ++k) {
      T mine = values[k], given = values[k + N / 2];
      if (is_upper) {
        mine = values[k + N / 2];
        given = values[k];
      }
      T lower = mine, upper = shuffle_xor(given, mask);
      if (is_upper) {  // the lower lane is on the left for both
        lower = upper;
        upper = mine;
      }
      values[k] = Op::combine(lower, upper);
    }
    const Kept kept = share_out<Op, N / 2>(values, mask / 2, width);
    return {kept.first + (is_upper ? N / 2 : 0), kept.count, kept.is_own};
  }
}

// A warp's lanes share out their values and write them, each beside those of other warps.
template <typename Layout>
struct WriteShares {
  unsigned char* storage;
  int x, width;

  template <typename Op, typename T, int N>
  FUSEBUILD_DEVICE void operator()(const Accumulator<Op, T, N>& accumulator, int number) const {
    const Kept kept = share_out<Op, N>(accumulator.values, kWarpThreads / 2, width);
    if (!kept.is_own) return;
    FUSEBUILD_UNROLL
    for (int k = 0; k < N; ++k) {
      if (k == kept.count) break;
      const int value = (number + kept.first + k) * width + x;
      *Layout::template at<T>(storage, value, thread_x() / kWarpThreads) = accumulator.values[k];
    }
  }
};

// Each thread combines what kWarps warps have of a value.
template <typename Layout, int kWarps>
struct CombineShares {
  unsigned char* storage;
  int width;

  template <typename Op, typename T, int N>
  FUSEBUILD_DEVICE void operator()(const Accumulator<Op, T, N>&, int number) const {
    for (int own = thread_x(); own < N * width; own += kWarps * kWarpThreads) {
      const int value = number * width + own;
      T combined;
      CombineAllSlots<Layout, kWarps>{storage, 0}(accumulator<Op>(combined), value);
      *Layout::template at<T>(storage, value, 0) = combined;
    }
  }
};

template <typename Layout>
struct ReadShares {
  unsigned char* storage;
  int x, width;

  template <typename Op, typename T, int N>
  FUSEBUILD_DEVICE void operator()(const Accumulator<Op, T, N>& accumulator, int number) const {
    FUSEBUILD_UNROLL
    for (int k = 0; k < N; ++k)
      accumulator.values[k] = *Layout::template at<T>(storage, (number + k) * width + x, 0);
  }
};

// Combines into the value of thread `y` those of the threads `y` + step, `y` + 2 * step and so on of its
// column, of which `left` are still to be combined. They lie in slots, `width` for each row of threads. All
// are read before the first is combined: in the place of one that is not there the last one is read, and left
// out.
template <typename Layout, int kRadix>
struct CombineColumn {
  unsigned char* storage;
  int x, y, width, step, left, first_value, last_value;

  template <typename Op, typename T, int N>
  FUSEBUILD_DEVICE void operator()(const Accumulator<Op, T, N>& accumulator, int number) const {
    FUSEBUILD_UNROLL
    for (int k = 0; k < N; ++k) {
      const int value = number + k;
      if (value < first_value || value >= last_value) continue;
      T others[kRadix - 1];
      FUSEBUILD_UNROLL
      for (int j = 1; j < kRadix; ++j) {
        const int slot = smaller(y + j * step, left - 1) * width + x;
        others[j - 1] = *Layout::template at<T>(storage, value - first_value, slot);
      }
      T& mine = accumulator.values[k];
      FUSEBUILD_UNROLL
      for (int j = 1; j < kRadix; ++j)
        if (y + j * step < left) mine = Op::combine(mine, others[j - 1]);
    }
  }
};

constexpr int kRowsAtOnce = 8;  // of which one is left

// Reduces across y where `width` * `height` of kThreads threads lie side by side, and the others have a
// greater y. Threads with y == 0 get the results; in other threads the accumulators hold leftovers. All
// threads of the block must call this. Safe to call back to back.
//
// Where a power of two of threads lie side by side, lanes of one warp that share x meet by shuffles. Then, at
// each barrier, every row of threads that stays combines what up to kRowsAtOnce - 1 others have: to wait at a
// barrier takes as long as to combine several. The barriers are shared by as many values as fit in
// kColumnStorageBytes of static shared memory, or by one that does not.
//
// States take long to combine: so lanes share them out, and none is combined twice. What warps have of each
// then meets in one thread. Where lanes cannot share them out, half of the rows are left after each barrier.
template <int kThreads, typename... Accumulators>
FUSEBUILD_DEVICE void reduce_columns_of(int x, int y, int width, int height,
                                        const Accumulators&... accumulators) {
  using Layout = Partials<kThreads, Accumulators...>;
  constexpr int kFitting = kColumnStorageBytes / Layout::kBytesPerValue;
  constexpr int kValuesAtOnce = smaller(Layout::kValues, largest(1, kFitting));
  FUSEBUILD_SHARED(unsigned char, storage, kValuesAtOnce* Layout::kBytesPerValue);
  constexpr int kWarps = kThreads / kWarpThreads;
  using Shares = Partials<kWarps, Accumulators...>;
  if (width < kWarpThreads && (width & (width - 1)) == 0) {
    if constexpr ((Accumulators::kIsOfStates || ...)) {
      if (width * Shares::kValues * Shares::kBytesPerValue <= kValuesAtOnce * Layout::kBytesPerValue) {
        sync_block();  // whoever still reads what was here before
        visit_each(WriteShares<Shares>{storage, x, width}, 0, accumulators...);
        sync_block();
        visit_each(CombineShares<Shares, kWarps>{storage, width}, 0, accumulators...);
        sync_block();
        if (y == 0) visit_each(ReadShares<Shares>{storage, x, width}, 0, accumulators...);
        return;
      }
    } else {  // all threads have rows, or nothing to add to them
      for (int mask = kWarpThreads / 2; mask >= width; mask /= 2)
        (combine_with_lane<kWarpThreads>(accumulators, mask), ...);
      const bool is_first = thread_x() % kWarpThreads < width;
      y = is_first ? thread_x() / kWarpThreads : kThreads;
      height = kThreads / kWarpThreads;
    }
  }
  constexpr int kRadix = (Accumulators::kIsOfStates || ...) ? 2 : kRowsAtOnce;
  FUSEBUILD_UNROLL
  for (int first = 0; first < Layout::kValues; first += kValuesAtOnce) {
    const int last = first + kValuesAtOnce < Layout::kValues ? first + kValuesAtOnce : Layout::kValues;
    sync_block();  // whoever still reads what was here before
    for (int left = height, step; left > 1; left = step) {
      step = (left + kRadix - 1) / kRadix;
      if (y >= step && y < left)
        visit_each(WriteSlot<Layout>{storage, y * width + x, first, last}, 0, accumulators...);
      sync_block();  // what the next round writes nobody reads in this one
      if (y < step)
        visit_each(CombineColumn<Layout, kRadix>{storage, x, y, width, step, left, first, last}, 0,
                   accumulators...);
    }
  }
}

// N values that lie so far `apart` in shared memory, combined.
template <typename Op, int N, typename T>
FUSEBUILD_DEVICE T combine_apart(const T* first, int apart) {
  static_assert(is_power_of_two(N), "values are halved");
  T values[N];
  FUSEBUILD_UNROLL
  for (int k = 0; k < N; ++k) values[k] = first[k * apart];
  FUSEBUILD_UNROLL
  for (int half = N / 2; half > 0; half /= 2) {
    FUSEBUILD_UNROLL
    for (int k = 0; k < half; ++k) values[k] = Op::combine(values[k], values[k + half]);
  }
  return values[0];
}

}  // namespace fusebuild
