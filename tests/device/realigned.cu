// Rows of any length that two warps copy, each thread the same columns of every row.
#include <fusebuild/kernel.cuh>

namespace fusebuild {

// Copies row block_x() of `rows`, `columns` each, which follow each other in memory.
template <int N, typename T>
FUSEBUILD_DEVICE void copy_row(const T* in, T* out, int64_t rows, int64_t columns) {
  constexpr int kThreads = 64;
  const int64_t row = block_x();
  for (int64_t start = 0; start < columns; start += kThreads * N) {
    const int64_t col = start + thread_x() * N, offset = row * columns + col;
    const Packed<T, N> words = load_words<N>(in, offset, rows * columns);
    const NextWord<T, N> next = load_next_word<N>(in, offset, rows * columns);
    const Packed<T, N> own = realigned<N>(words, next, shift_of<N>(row * columns));
    store_realigned(out + row * columns, col, columns, unpack(own));
  }
}

// Writes which of N columns from `first` on a row of so many has, a bit each.
template <int N>
FUSEBUILD_DEVICE void insides(int64_t* out, int64_t columns) {
  out[thread_x()] = inside_up_to<N>(int64_t(thread_x()), columns);
}

}  // namespace fusebuild

#define KERNEL(name, T, N)                                                                    \
  FUSEBUILD_KERNEL(64, 1)                                                                     \
  copy_##name(const T* __restrict__ in, T* __restrict__ out, int64_t rows, int64_t columns) { \
    fb::copy_row<N>(in, out, rows, columns);                                                  \
  }                                                                                           \
  FUSEBUILD_ENTRY(copy_##name)

KERNEL(bool, bool, 8)
KERNEL(half, __half, 8)
KERNEL(bfloat16, __nv_bfloat16, 8)
KERNEL(float, float, 8)
KERNEL(int32, int32_t, 4)
KERNEL(int64, int64_t, 8)
KERNEL(double, double, 2)

FUSEBUILD_KERNEL(32, 1)
insides(int64_t* __restrict__ out, int64_t columns) { fb::insides<8>(out, columns); }
FUSEBUILD_ENTRY(insides)
