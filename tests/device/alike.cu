// The functions of alike.cuh: how rows that begin alike are shared out, and what is copied of them; and how
// warps store rows that begin anywhere.

#include <fusebuild/kernel.cuh>

namespace fusebuild {

// The first part of each walker, one more than there are walkers; then what the rows of each part are.
template <int N>
FUSEBUILD_DEVICE void share_out(int64_t* first_parts, int64_t* parts, int64_t rows, int64_t columns,
                                int64_t walkers) {
  const ShareOfAlike<N> share(rows, columns, walkers);
  const int64_t walker = block_x() * 32 + thread_x();
  if (walker > walkers) return;
  first_parts[walker] = share.first_part(walker);
  if (walker == walkers) return;
  for (int64_t part = share.first_part(walker); part < share.first_part(walker + 1); ++part) {
    const RowsAlike own = share.part(walker, part);
    parts[4 * part] = own.first;
    parts[4 * part + 1] = own.last;
    parts[4 * part + 2] = own.shift;
    parts[4 * part + 3] = share.step;
  }
}

// Copies [rows, columns] by way of shared memory, one thread a row. What is copied there beside the row is
// not the kernel's to write; what lies beyond the tensor is zero, and `beyond` counts what is not.
template <int N, typename T>
FUSEBUILD_DEVICE void copy_row(const T* in, T* out, int64_t* beyond, int64_t rows, int64_t columns) {
  const int64_t row = block_x() * 32 + thread_x();
  Packed<T, N>* place = dynamic_shared<Packed<T, N>>() + thread_x();
  if (row >= rows) return;
  const int64_t shift = shift_of<N>(row * columns), left = (rows - row) * columns;
  const int64_t readable = readable_of<N>(columns, left);
  for (int64_t col = -shift; col < columns; col += N) {
    copy_up_to<N>(place, in + row * columns + col, readable - col);
    end_copies();
    wait_copies<0>();
    const Vec<T, N> values = unpack(*place);
    for (int k = 0; k < N; ++k) {
      if (col + k >= 0 && col + k < columns) out[row * columns + col + k] = values[k];
      if (col + k >= left && !(values[k] == T(0))) beyond[row] += 1;
    }
  }
}

}  // namespace fusebuild

FUSEBUILD_KERNEL(32, 1)
share_out(int64_t* __restrict__ first_parts, int64_t* __restrict__ parts, int64_t rows, int64_t columns,
          int64_t walkers) {
  fb::share_out<8>(first_parts, parts, rows, columns, walkers);
}
FUSEBUILD_ENTRY(share_out)

#define KERNEL(name, T, N)                                                                                   \
  FUSEBUILD_KERNEL(32, 1)                                                                                    \
  copy_row_##name(const T* __restrict__ in, T* __restrict__ out, int64_t* __restrict__ beyond, int64_t rows, \
                  int64_t columns) {                                                                         \
    fb::copy_row<N>(in, out, beyond, rows, columns);                                                         \
  }                                                                                                          \
  FUSEBUILD_ENTRY(copy_row_##name)

KERNEL(bool, bool, 8)
KERNEL(half, __half, 8)
KERNEL(bfloat16, __nv_bfloat16, 8)
KERNEL(float, float, 8)
KERNEL(int32, int32_t, 4)
KERNEL(int64, int64_t, 8)
KERNEL(double, double, 2)

// A row that a block of 64 threads has vectors of, the first of which begins `shift` columns before it.
FUSEBUILD_KERNEL(64, 1)
store_row(float* __restrict__ out, const float* __restrict__ row, int64_t columns, int64_t shift) {
  const int col = fb::thread_x() * 8 - int(shift);
  fb::Vec<float, 8> values;
  for (int k = 0; k < 8; ++k) values[k] = col + k >= 0 && col + k < columns ? row[col + k] : -1.0f;
  fb::store_by_warps<64>(out, fb::thread_x(), col, int(columns), values);
}
FUSEBUILD_ENTRY(store_row)
