// Rows that share a block, each with elements of several types.

#include <fusebuild/kernel.cuh>

using namespace fusebuild;

// Only the first thread of a row has its elements, others have those of a row that is not there.
template <int kThreadsPerRow, int kRowsPerBlock>
FUSEBUILD_DEVICE void copy_rows(const __half* halves, const double* doubles, const bool* bools,
                                __half* half_copies, double* double_copies, bool* bool_copies, int64_t rows) {
  const int64_t wanted = int64_t(block_x()) * kRowsPerBlock + thread_x() / kThreadsPerRow;
  const int64_t row = wanted < rows && thread_x() % kThreadsPerRow == 0 ? wanted : rows;
  store_rows<kThreadsPerRow, kRowsPerBlock>(rows, row_result(half_copies, halves[row]),
                                            row_result(double_copies, doubles[row]),
                                            row_result(bool_copies, bools[row]));
}

#define ROW_KERNEL(threads, rows)                                                                     \
  FUSEBUILD_KERNEL((threads) * (rows), 1)                                                             \
  copy_##threads##x##rows(const __half* __restrict__ halves, const double* __restrict__ doubles,      \
                          const bool* __restrict__ bools, __half* __restrict__ half_copies,           \
                          double* __restrict__ double_copies, bool* __restrict__ bool_copies,         \
                          int64_t count) {                                                            \
    copy_rows<threads, rows>(halves, doubles, bools, half_copies, double_copies, bool_copies, count); \
  }                                                                                                   \
  FUSEBUILD_ENTRY(copy_##threads##x##rows)

ROW_KERNEL(1, 128)
ROW_KERNEL(8, 16)
ROW_KERNEL(16, 5)
ROW_KERNEL(32, 4)
ROW_KERNEL(128, 1)
