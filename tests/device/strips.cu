// Rows side by side, whose first and last vectors belong to two of them.

#include <fusebuild/kernel.cuh>

using namespace fusebuild;

// Copies [rows, columns], one vector a lane; where rows meet inside of a vector, the other row's part is -1.
template <int N, typename T>
FUSEBUILD_DEVICE void copy_joined(const T* in, T* out, int rows, int columns, int lanes) {
  const int own = block_x() * 64 + thread_x();
  const bool is_there = own / lanes < rows;
  const int row = is_there ? own / lanes : rows - 1, number = is_there ? own % lanes : lanes;
  const int start = row * columns, i = number * N - shift_of<N>(start);
  Vec<T, N> values;
  for (int k = 0; k < N; ++k) values[k] = i + k >= 0 && i + k < columns ? in[start + i + k] : T(-1);
  JoinedVector<N>(start, columns, lanes, number, row + 1 < rows).store(out + start + i, values);
}

#define KERNELS(name, T, N)                                                                              \
  FUSEBUILD_KERNEL(64, 1)                                                                                \
  copy_##name(const T* __restrict__ in, T* __restrict__ out, int64_t rows, int64_t columns, int64_t n) { \
    copy_joined<N>(in, out, int(rows), int(columns), int(n));                                            \
  }                                                                                                      \
  FUSEBUILD_ENTRY(copy_##name)

KERNELS(int32, int32_t, 4)
KERNELS(int64, int64_t, 8)
KERNELS(half, __half, 8)
KERNELS(bfloat16, __nv_bfloat16, 8)
KERNELS(float, float, 8)
