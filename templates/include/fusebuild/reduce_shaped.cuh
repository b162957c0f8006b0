// Reductions across threads that lie in a block as the sizes of a call have it: their number in each row or
// column is an argument. As in reduce.cuh every result is combined in one fixed order, which follows from
// that number alone.

#pragma once

#include "fusebuild/reduce.cuh"
#include "fusebuild/row_results.cuh"

namespace fusebuild {

// --- Rows: threads that are consecutive in thread_x()

// Replaces each value by `count` slots combined.
template <typename Layout>
struct CombineSlots {
  unsigned char* storage;
  int first_slot, count;

  template <typename Op, typename T, int N>
  FUSEBUILD_DEVICE void operator()(const Accumulator<Op, T, N>& accumulator, int number) const {
    FUSEBUILD_UNROLL
    for (int k = 0; k < N; ++k) {
      T result = *Layout::template at<T>(storage, number + k, first_slot);
      for (int s = 1; s < count; ++s)
        result = Op::combine(result, *Layout::template at<T>(storage, number + k, first_slot + s));
      accumulator.values[k] = result;
    }
  }
};

// Reduces across the `width` threads of each row of a (kThreads, 1, 1) block, a power of two. Every thread of
// a row gets the same bits. All threads of the block must call this, and once in a kernel.
template <int kThreads, typename... Accumulators>
FUSEBUILD_DEVICE void reduce_row_of(int width, const Accumulators&... accumulators) {
  for (int mask = smaller(width, kWarpThreads) / 2; mask > 0; mask /= 2)
    (combine_with_lane<kWarpThreads>(accumulators, mask), ...);
  if (width <= kWarpThreads) return;
  using Layout = Partials<kThreads / kWarpThreads, Accumulators...>;
  FUSEBUILD_SHARED(unsigned char, storage, kStorageBytes<Layout>);
  if (thread_x() % kWarpThreads == 0) {
    visit_each(WriteSlot<Layout>{storage, thread_x() / kWarpThreads, 0, Layout::kValues}, 0, accumulators...);
  }
  sync_block();
  const int first_slot = thread_x() / width * (width / kWarpThreads);
  visit_each(CombineSlots<Layout>{storage, first_slot, width / kWarpThreads}, 0, accumulators...);
}

// As store_rows, where 2 to the power of `row_shift` threads of a (kThreads, 1, 1) block share a row.
template <int kThreads, typename... Values>
FUSEBUILD_DEVICE void store_rows_of(int row_shift, int64_t rows, const RowResult<Values>&... results) {
  using Layout = Partials<kThreads, RowResult<Values>...>;
  constexpr int kBytes = Layout::kValues * Layout::kBytesPerValue;
  FUSEBUILD_SHARED(unsigned char, storage, kBytes);
  const int rows_here = kThreads >> row_shift;
  int number = 0;
  if ((thread_x() & ((1 << row_shift) - 1)) == 0) {
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

// Reduces across y where `width` * `height` of kThreads threads lie side by side, and the others have a
// greater y. Threads with y == 0 get the results; in other threads the accumulators hold leftovers. All
// threads of the block must call this. Safe to call back to back.
//
// Where a power of two of threads lie side by side, lanes of one warp that share x meet by shuffles. Then the
// rows that are left halve their number at each barrier. The barriers are shared by as many values as fit
// in kColumnStorageBytes of static shared memory, or by one that does not.
template <int kThreads, typename... Accumulators>
FUSEBUILD_DEVICE void reduce_columns_of(int x, int y, int width, int height,
                                        const Accumulators&... accumulators) {
  using Layout = Partials<kThreads, Accumulators...>;
  constexpr int kFitting = kColumnStorageBytes / Layout::kBytesPerValue;
  constexpr int kValuesAtOnce = smaller(Layout::kValues, largest(1, kFitting));
  FUSEBUILD_SHARED(unsigned char, storage, kValuesAtOnce* Layout::kBytesPerValue);
  if (width < kWarpThreads &&
      (width & (width - 1)) == 0) {  // all threads have rows, or nothing to add to them
    for (int mask = kWarpThreads / 2; mask >= width; mask /= 2)
      (combine_with_lane<kWarpThreads>(accumulators, mask), ...);
    const bool is_first = thread_x() % kWarpThreads < width;
    y = is_first ? thread_x() / kWarpThreads : kThreads;
    height = kThreads / kWarpThreads;
  }
  int greatest = 1;
  while (2 * greatest < height) greatest *= 2;
  FUSEBUILD_UNROLL
  for (int first = 0; first < Layout::kValues; first += kValuesAtOnce) {
    const int last = first + kValuesAtOnce < Layout::kValues ? first + kValuesAtOnce : Layout::kValues;
    sync_block();  // whoever still reads what was here before
    for (int half = greatest; half > 0 && height > 1; half /= 2) {
      // Each round has slots of its own, and so needs just one barrier.
      const int left = smaller(height, 2 * half);
      const int slot = (height - left + y % half) * width + x;
      if (y >= half && y < left)
        visit_each(WriteSlot<Layout>{storage, slot, first, last}, 0, accumulators...);
      sync_block();
      if (y < half && y + half < left)
        visit_each(CombineSlot<Layout>{storage, slot, first, last}, 0, accumulators...);
    }
  }
}

}  // namespace fusebuild
