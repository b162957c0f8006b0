// Mean and variance in one read: running sums of threads, merged over rows, columns and partial results.

#include <fusebuild/kernel.cuh>

using namespace fusebuild;

// A row of one block: its threads take turns, as a row kernel's do. Every thread says what it ends with.
template <int kThreads, typename T>
FUSEBUILD_DEVICE void welford_row(const T* in, double* out, int64_t columns) {
  Moments<T> moments;
  int64_t centered = 1;
  for (int64_t col = thread_x(); col < columns; col += kThreads) {
    const int64_t count = (col - thread_x()) / kThreads;
    if (count >= 16 * centered) moments.recenter(centered = count);
    moments.add(in[col], count == 0);
  }
  auto state = moments.state(steps<int64_t>(thread_x(), columns, kThreads));
  reduce_row<kThreads, 1>(accumulator<Welford<T>>(state));
  out[3 * thread_x()] = cast<double>(Welford<T>::mean(state));
  out[3 * thread_x() + 1] = cast<double>(state.v1);
  out[3 * thread_x() + 2] = cast<double>(state.v2);
}

#define WELFORD_ROW(type, threads)                                                                     \
  FUSEBUILD_KERNEL(threads, 1)                                                                         \
  welford_##type##_##threads(const type* __restrict__ in, double* __restrict__ out, int64_t columns) { \
    welford_row<threads, type>(in, out, columns);                                                      \
  }                                                                                                    \
  FUSEBUILD_ENTRY(welford_##type##_##threads)

WELFORD_ROW(float, 1)
WELFORD_ROW(float, 32)
WELFORD_ROW(float, 256)
WELFORD_ROW(double, 64)

// Two columns a thread, 4 x 16 threads, 8 columns in all.
FUSEBUILD_KERNEL(64, 1)
welford_columns(const float* __restrict__ in, double* __restrict__ out, int64_t rows) {
  Moments<float> moments[2];
  int64_t centered = 1;
  for (int64_t row = thread_y(); row < rows; row += 16) {
    recenter(centered, (row - thread_y()) / 16, moments);
    const Vec<float, 2> x = load<2>(in + row * 8 + thread_x() * 2);
    for (int k = 0; k < 2; ++k) moments[k].add(x[k], row == thread_y());
  }
  auto state = states(moments, steps<int64_t>(thread_y(), rows, 16));
  reduce_columns<4, 16>(accumulator<Welford<float>>(state));
  if (thread_y() != 0) return;
  for (int k = 0; k < 2; ++k) {
    const int column = thread_x() * 2 + k;
    out[3 * column] = Welford<float>::mean(state[k]);
    out[3 * column + 1] = state[k].v1;
    out[3 * column + 2] = cast<double>(state[k].v2);
  }
}
FUSEBUILD_ENTRY(welford_columns)

// Parts of numbers of elements.
FUSEBUILD_KERNEL(1, 1) shares(const float* __restrict__ in, float* __restrict__ out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = share_of(in[2 * i], in[2 * i + 1]);
}
FUSEBUILD_ENTRY(shares)

// How often loops run.
FUSEBUILD_KERNEL(1, 1) count_steps(const int32_t* __restrict__ in, int32_t* __restrict__ out) {
  out[0] = steps<int32_t>(in[0], in[1], in[2]);
  out[1] = 0;
  for (int32_t i = in[0]; i < in[1]; i += in[2]) ++out[1];
}
FUSEBUILD_ENTRY(count_steps)

// The same of loops in turns: which rows they take, and how often they say that each takes one.
FUSEBUILD_KERNEL(1, 1)
take_turns(const int32_t* __restrict__ in, int32_t* __restrict__ rows, int32_t* __restrict__ counts) {
  const int32_t end = in[0], step = in[1], unroll = in[2], turns = in[3];
  for (int32_t turn = 0; turn < turns; ++turn) {
    for (int32_t thread = 0; thread < step; ++thread) {
      const int32_t first = turn * unroll * step + thread, loop = turn * step + thread;
      counts[2 * loop] = steps_in_turns<int32_t>(first, end, step, unroll, turns);
      for (int32_t top = first; top < end; top += turns * unroll * step)
        for (int32_t r = top; r < end && r < top + unroll * step; r += step) {
          ++rows[r];
          ++counts[2 * loop + 1];
        }
    }
  }
}
FUSEBUILD_ENTRY(take_turns)
