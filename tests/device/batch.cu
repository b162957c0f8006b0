// Elements combined a batch at a time: what one thread makes of a row, N elements after N elements.

#include <fusebuild/kernel.cuh>

using namespace fusebuild;

template <typename T, int N>
FUSEBUILD_DEVICE Vec<T, N> batch_of(const T* in, int64_t first, int64_t end, T none) {
  Vec<T, N> result = splat<N>(none);
  for (int k = 0; k < N; ++k)
    if (first + k >= 0 && first + k < end) result[k] = in[first + k];
  return result;
}

// Row `block_x()` of `columns` elements, whose maximum and sum of exponentials go to `out`.
template <typename T, int N>
FUSEBUILD_DEVICE void exponentials_of_row(const T* in, T* out, int64_t columns) {
  typename ExpSum<T>::State state = {-kInfinity<T>, T(0)};
  for (int64_t col = 0; col < columns; col += N)
    add_exponentials(state, batch_of<T, N>(in + block_x() * columns, col, columns, -kInfinity<T>));
  out[2 * block_x()] = state.v0;
  out[2 * block_x() + 1] = state.v1;
}

template <typename T>
struct ValueAndIndex {
  T v0;
  int64_t v1;
};

// The first of the largest, by Max, or smallest values of a row, and its index; the first batch begins
// `before` elements before the row.
template <typename Best, typename T, int N>
FUSEBUILD_DEVICE void best_of_row(const T* in, T* values, int64_t* indices, int64_t columns, int64_t before) {
  const T none = Best::template identity<T>();
  FirstBest<Best, T, N, int32_t> best;
  for (int32_t col = -static_cast<int32_t>(before); col < columns; col += N)
    best.add(batch_of<T, N>(in + block_x() * columns, col, columns, none), col);
  const auto state = best.template state<ValueAndIndex<T>>({none, -5});
  values[block_x()] = state.v0;
  indices[block_x()] = state.v1;
}

#define EXPONENTIALS(type, N)                                                                       \
  FUSEBUILD_KERNEL(1, 1)                                                                            \
  exponentials_##type##_##N(const type* __restrict__ in, type* __restrict__ out, int64_t columns) { \
    exponentials_of_row<type, N>(in, out, columns);                                                 \
  }                                                                                                 \
  FUSEBUILD_ENTRY(exponentials_##type##_##N)

EXPONENTIALS(float, 1)
EXPONENTIALS(float, 4)
EXPONENTIALS(float, 8)
EXPONENTIALS(double, 2)

#define BEST(Best, type, N)                                                                    \
  FUSEBUILD_KERNEL(1, 1)                                                                       \
  best_##Best##_##type##_##N(const type* __restrict__ in, type* __restrict__ values,           \
                             int64_t* __restrict__ indices, int64_t columns, int64_t before) { \
    best_of_row<Best, type, N>(in, values, indices, columns, before);                          \
  }                                                                                            \
  FUSEBUILD_ENTRY(best_##Best##_##type##_##N)

BEST(Max, float, 1)
BEST(Max, float, 8)
BEST(Min, float, 4)
BEST(Min, double, 2)
BEST(Max, int32_t, 8)
BEST(Min, int64_t, 2)
BEST(Max, bool, 8)

// The sum of a row.
template <int N>
FUSEBUILD_DEVICE void sum_of_row(const float* in, float* out, int64_t columns) {
  LongSum sum;
  for (int64_t col = 0; col < columns; col += N)
    sum.add(batch_of<float, N>(in + block_x() * columns, col, columns, 0.0f));
  out[block_x()] = sum.total();
}

#define SUM(N)                                                                      \
  FUSEBUILD_KERNEL(1, 1)                                                            \
  sum_##N(const float* __restrict__ in, float* __restrict__ out, int64_t columns) { \
    sum_of_row<N>(in, out, columns);                                                \
  }                                                                                 \
  FUSEBUILD_ENTRY(sum_##N)

SUM(1)
SUM(8)

// Which of eight neighbours is at a position, counted in 32 bits and in 64.
FUSEBUILD_KERNEL(1, 1)
places(const int64_t* __restrict__ positions, const int64_t* __restrict__ firsts, int32_t* __restrict__ out) {
  const int64_t position = positions[block_x()], first = firsts[block_x()];
  out[2 * block_x()] = place_in<8>(position, static_cast<int32_t>(first));
  out[2 * block_x() + 1] = place_in<8>(position, first);
}
FUSEBUILD_ENTRY(places)

// Of the parts of `in` that have `size` elements each, the squares around `center`.
FUSEBUILD_KERNEL(1, 1)
squares(const float* __restrict__ in, float* __restrict__ out, int64_t size, int64_t center) {
  BatchMoments<float, int32_t> moments;
  for (int64_t i = 0; i < size; ++i) moments.add(Vec<float, 1>{in[block_x() * size + i]});
  const auto state = moments.state(Welford<float>::identity());
  out[block_x()] = squares_around(state.v1, float(state.v0 * state.v2), state.v2, float(center));
}
FUSEBUILD_ENTRY(squares)
