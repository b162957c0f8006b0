// Rows of any length that a warp or two copy, by way of shared memory, each thread the same columns of every
// row.
#include <fusebuild/kernel.cuh>

namespace fusebuild {

// Copies the columns of row block_x() of `rows`, `columns` each, from the one with number `first` on, `count`
// of them; and the same of another tensor. What lies in shared memory beyond the tensor, `beyond` counts
// unless it is zero.
template <int N, int kThreads, typename T>
FUSEBUILD_DEVICE void copy_columns(const T* in, const T* other, T* out, T* more, int64_t* beyond,
                                   int64_t rows, int64_t columns, int64_t first, int64_t count) {
  constexpr int kMost = 8 * kThreads, kPlaces = kMost + N;
  const int thread = thread_x();
  const int64_t size = rows * columns, begin = block_x() * columns + first;
  T* const places = dynamic_shared<T>();
  const Around<N, kThreads, int64_t> around(begin, count, thread);
  copy_around<kPlaces>(around, size, tile_of(places, in + around.begin),
                       tile_of(places + kPlaces, other + around.begin));
  end_copies();
  wait_copies<0>();
  sync_block();
  for (int64_t at = around.begin + thread; at < around.begin + (around.end + N - 1) / N * N; at += kThreads)
    if (at >= size && !(places[at - around.begin] == T(0))) beyond[thread] += 1;
  sync_block();
  T* const own = places + around.shift + thread;
  const Vec<T, 8> values = load_striped<8, kThreads>(own);
  store_striped<kThreads>(own, load_striped<8, kThreads>(own + kPlaces));
  store_striped<kThreads>(own + kPlaces, values);
  sync_block();
  store_around<kPlaces>(around, out + around.begin, places + kPlaces);
  store_around<kPlaces>(around, more + around.begin, places);
}

// Copies `count` elements, so many threads apart.
template <int kThreads, typename T>
FUSEBUILD_DEVICE void copy_up_to_count(const T* in, T* out, int64_t count) {
  const int64_t left = count - thread_x();
  const Vec<T, 8> values = load_striped_up_to<8, kThreads>(in + thread_x(), left);
  for (int k = 0; k < 8; ++k)
    if (k * kThreads >= left && !(values[k] == T(0))) return;
  store_striped_up_to<kThreads>(out + thread_x(), values, left);
}

}  // namespace fusebuild

#define KERNEL(name, T, N, kThreads)                                                             \
  FUSEBUILD_KERNEL(kThreads, 1)                                                                  \
  copy_##name(const T* __restrict__ in, const T* __restrict__ other, T* __restrict__ out,        \
              T* __restrict__ more, int64_t* __restrict__ beyond, int64_t rows, int64_t columns, \
              int64_t first, int64_t count) {                                                    \
    fb::copy_columns<N, kThreads>(in, other, out, more, beyond, rows, columns, first, count);    \
  }                                                                                              \
  FUSEBUILD_ENTRY(copy_##name)                                                                   \
  FUSEBUILD_KERNEL(kThreads, 1)                                                                  \
  up_to_##name(const T* __restrict__ in, T* __restrict__ out, int64_t count) {                   \
    fb::copy_up_to_count<kThreads>(in, out, count);                                              \
  }                                                                                              \
  FUSEBUILD_ENTRY(up_to_##name)

KERNEL(half, __half, 8, 64)
KERNEL(bfloat16, __nv_bfloat16, 8, 32)
KERNEL(float, float, 8, 64)
KERNEL(int32, int32_t, 4, 32)
KERNEL(int64, int64_t, 8, 32)
KERNEL(double, double, 2, 64)
