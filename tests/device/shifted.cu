// Rows that begin anywhere, by aligned vectors.

#include <fusebuild/kernel.cuh>

using namespace fusebuild;

// Copies [rows, columns], one thread a row; what `out` has beside the rows is not the kernel's to write.
template <int N, typename T>
FUSEBUILD_DEVICE void copy_row(const T* in, T* out, int64_t rows, int64_t columns) {
  const int64_t row = block_x() * 32 + thread_x();
  if (row >= rows) return;
  const int64_t shift = shift_of<N>(row * columns);
  const int64_t readable = readable_of<N>(columns, (rows - row) * columns);
  const int64_t whole = whole_vectors_of<N>(columns, shift, readable);
  for (int64_t col = -shift; col < columns; col += N) {
    const T* address = in + row * columns + col;
    const Packed<T, N> loaded =
        col < whole ? load_packed<N>(address) : load_packed_up_to<N>(address, readable - col);
    store_inside(out + row * columns + col, unpack(loaded), inside_of<N>(col, columns));
  }
}

// Copies `count` elements in vectors; the last one may be cut off.
template <int N, typename T>
FUSEBUILD_DEVICE void copy_all(const T* in, T* out, int64_t count) {
  const int64_t i = (block_x() * 32 + thread_x()) * N;
  if (i < count) store_up_to(out + i, unpack(load_packed_up_to<N>(in + i, count - i)), count - i);
}

// The same by one vector a thread, or one of the elements that are no whole vector.
template <int N, typename T>
FUSEBUILD_DEVICE void copy_each(const T* in, T* out, int64_t count) {
  const int64_t own = block_x() * 32 + thread_x(), vectors = count / N;
  if (own >= vectors + count % N) return;
  const int64_t i = (own < vectors ? own : vectors) * N;
  const int alone = own < vectors ? -1 : static_cast<int>(own - vectors);
  store_all_or_one(out + i, unpack(load_all_or_one<N>(in + i, alone), alone), alone);
}

// For each column from -N + 1 on, the N elements beside it, and around the row's end for those of the row.
template <int N, typename T>
FUSEBUILD_DEVICE void windows(const T* in, T* beside, T* around, int64_t columns) {
  const int64_t place = block_x() * 32 + thread_x(), col = place - (N - 1);
  if (col >= columns) return;
  store(beside + place * N, load_beside<N>(in, col, columns));
  if (col >= 0) store(around + col * N, load_around<N>(in, col, columns));
}

// For each place from -3 N on, the N elements of a tensor of `count` that begin there.
template <int N, typename Index, typename T>
FUSEBUILD_DEVICE void near(const T* in, T* out, Index count, int64_t places) {
  const int64_t number = block_x() * 32 + thread_x();
  if (number >= places) return;
  const Index first = static_cast<Index>(number) - 3 * N;
  store(out + number * N, unpack(cut_around(load_words_near<N>(in, first, count), first)));
}

// For each place, what stands there and at the N - 1 after it where each element stands at `run` places.
template <int N, typename T>
FUSEBUILD_DEVICE void runs(const T* in, T* out, int64_t count, int64_t run, int64_t places) {
  const int64_t place = block_x() * 32 + thread_x();
  if (place < places) store(out + place * N, load_runs<N>(in, place, count, run));
}

// Copies a row whose first element is element `first` of a tensor, one vector or element beside them a
// thread.
template <int N, typename T>
FUSEBUILD_DEVICE void copy_edges(const T* in, T* out, int64_t first, int64_t columns) {
  const Edges<N> edges(first, columns);
  const int64_t thread = block_x() * 32 + thread_x(), col = edges.before + thread * N;
  if (col + N <= columns) store(out + first + col, load<N>(in + first + col));
  if (thread >= edges.count()) return;
  const int64_t edge = edges.column(thread);
  out[first + edge] = in[first + edge];
}

// The same with vectors that are cut out of the row at `row`, which begins aligned.
template <int N, typename T>
FUSEBUILD_DEVICE void cut_edges(const T* row, T* out, int64_t first, int64_t columns) {
  const RoomyEdges<N, int64_t> edges(first, columns);
  const int64_t thread = block_x() * 32 + thread_x(), col = edges.before + thread * N;
  if (col < edges.end()) store(out + first + col, load_cut<N>(row + col, edges.before));
  if (thread < edges.count) out[first + edges.column(thread)] = row[edges.column(thread)];
}

// The same for a row that is element `own` and those after it of a tensor that begins aligned.
template <int N, typename T>
FUSEBUILD_DEVICE void cut_anywhere(const T* tensor, T* out, int64_t own, int64_t first, int64_t columns) {
  const T* row = tensor + own;
  const RoomyEdges<N, int64_t, 2> edges(first, columns);
  const int64_t thread = block_x() * 32 + thread_x(), col = edges.before + thread * N;
  if (col < edges.end()) store(out + first + col, load_cut_anywhere<N>(row + col));
  if (thread < edges.count) out[first + edges.column(thread)] = row[edges.column(thread)];
}

#define KERNELS(name, T, N)                                                                              \
  FUSEBUILD_KERNEL(32, 1)                                                                                \
  copy_row_##name(const T* __restrict__ in, T* __restrict__ out, int64_t m, int64_t n) {                 \
    copy_row<N>(in, out, m, n);                                                                          \
  }                                                                                                      \
  FUSEBUILD_ENTRY(copy_row_##name)                                                                       \
  FUSEBUILD_KERNEL(32, 1)                                                                                \
  copy_all_##name(const T* __restrict__ in, T* __restrict__ out, int64_t n) { copy_all<N>(in, out, n); } \
  FUSEBUILD_ENTRY(copy_all_##name)                                                                       \
  FUSEBUILD_KERNEL(32, 1)                                                                                \
  copy_each_##name(const T* __restrict__ in, T* __restrict__ o, int64_t n) { copy_each<N>(in, o, n); }   \
  FUSEBUILD_ENTRY(copy_each_##name)                                                                      \
  FUSEBUILD_KERNEL(32, 1)                                                                                \
  windows_##name(const T* __restrict__ in, T* __restrict__ b, T* __restrict__ a, int64_t n) {            \
    windows<N>(in, b, a, n);                                                                             \
  }                                                                                                      \
  FUSEBUILD_ENTRY(windows_##name)                                                                        \
  FUSEBUILD_KERNEL(32, 1)                                                                                \
  near_##name(const T* __restrict__ in, T* __restrict__ narrow, T* __restrict__ wide, int64_t n,         \
              int64_t places) {                                                                          \
    near<N>(in, narrow, int32_t(n), places);                                                             \
    near<N>(in, wide, n, places);                                                                        \
  }                                                                                                      \
  FUSEBUILD_ENTRY(near_##name)                                                                           \
  FUSEBUILD_KERNEL(32, 1)                                                                                \
  runs_##name(const T* __restrict__ in, T* __restrict__ out, int64_t n, int64_t run, int64_t places) {   \
    runs<N>(in, out, n, run, places);                                                                    \
  }                                                                                                      \
  FUSEBUILD_ENTRY(runs_##name)                                                                           \
  FUSEBUILD_KERNEL(32, 1)                                                                                \
  copy_edges_##name(const T* __restrict__ in, T* __restrict__ out, int64_t first, int64_t n) {           \
    copy_edges<N>(in, out, first, n);                                                                    \
  }                                                                                                      \
  FUSEBUILD_ENTRY(copy_edges_##name)                                                                     \
  FUSEBUILD_KERNEL(32, 1)                                                                                \
  cut_edges_##name(const T* __restrict__ row, T* __restrict__ out, int64_t first, int64_t n) {           \
    cut_edges<N>(row, out, first, n);                                                                    \
  }                                                                                                      \
  FUSEBUILD_ENTRY(cut_edges_##name)                                                                      \
  FUSEBUILD_KERNEL(32, 1)                                                                                \
  cut_anywhere_##name(const T* __restrict__ in, T* __restrict__ o, int64_t own, int64_t f, int64_t n) {  \
    cut_anywhere<N>(in, o, own, f, n);                                                                   \
  }                                                                                                      \
  FUSEBUILD_ENTRY(cut_anywhere_##name)

KERNELS(bool, bool, 8)
KERNELS(half, __half, 8)
KERNELS(bfloat16, __nv_bfloat16, 8)
KERNELS(float, float, 8)
KERNELS(int32, int32_t, 4)
KERNELS(int64, int64_t, 8)
KERNELS(double, double, 2)
