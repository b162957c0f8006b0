// What is one element a row, where rows share a block.

#pragma once

#include "fusebuild/reduce.cuh"

namespace fusebuild {

// The element of a tensor that belongs to the calling thread's row.
template <typename T>
struct RowResult {
  using Value = T;
  static constexpr int kCount = 1;

  T* tensor;
  T value;
};

template <typename T>
FUSEBUILD_DEVICE RowResult<T> row_result(T* tensor, T value) {
  return {tensor, value};
}

// Stores the elements of each row of a (kThreadsPerRow * kRowsPerBlock, 1, 1) block, where blocks have one
// after another of so many `rows`. The block's first threads do so for all of them, neighbours beside
// neighbours: were each row's threads to store its own, that would be as many stores of a few bytes. All
// threads of the block must call this, and once in a kernel.
template <int kThreadsPerRow, int kRowsPerBlock, typename... Values>
FUSEBUILD_DEVICE void store_rows(int64_t rows, const RowResult<Values>&... results) {
  using Layout = Partials<kRowsPerBlock, RowResult<Values>...>;
  constexpr int kBytes = Layout::kValues * Layout::kBytesPerValue;
  FUSEBUILD_SHARED(unsigned char, storage, kBytes);
  int number = 0;
  if (thread_x() % kThreadsPerRow == 0) {
    const int slot = thread_x() / kThreadsPerRow;
    ((*Layout::template at<Values>(storage, number++, slot) = results.value), ...);
  }
  sync_block();
  if (thread_x() < kRowsPerBlock) {
    const int64_t row = int64_t(block_x()) * kRowsPerBlock + thread_x();
    number = 0;
    if (row < rows)
      ((results.tensor[row] = *Layout::template at<Values>(storage, number++, thread_x())), ...);
  }
}

// The same for a block of kThreads, of which each row has 2^`row_shift`.
template <int kThreads, typename... Values>
FUSEBUILD_DEVICE void store_rows_of_threads(int row_shift, int64_t rows,
                                            const RowResult<Values>&... results) {
  using Layout = Partials<kThreads, RowResult<Values>...>;
  constexpr int kBytes = Layout::kValues * Layout::kBytesPerValue;
  FUSEBUILD_SHARED(unsigned char, storage, kBytes);
  const int held = kThreads >> row_shift;  // rows of the block
  int number = 0;
  if ((thread_x() & ((1 << row_shift) - 1)) == 0) {
    const int slot = thread_x() >> row_shift;
    ((*Layout::template at<Values>(storage, number++, slot) = results.value), ...);
  }
  sync_block();
  if (thread_x() < held) {
    const int64_t row = int64_t(block_x()) * held + thread_x();
    number = 0;
    if (row < rows)
      ((results.tensor[row] = *Layout::template at<Values>(storage, number++, thread_x())), ...);
  }
}

}  // namespace fusebuild
