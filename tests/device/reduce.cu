// Row and column reductions of every shape.

#include <fusebuild/kernel.cuh>

using namespace fusebuild;

// One element per thread and one row per kThreadsPerRow threads. Four results per thread, so that a test sees
// that all threads of a row agree: sum and product in double, maximum and minimum in float.
template <int kThreadsPerRow, int kRowsPerBlock>
FUSEBUILD_DEVICE void reduce_four(const float* in, double* out) {
  const int thread = block_x() * kThreadsPerRow * kRowsPerBlock + thread_x();
  double sum = in[thread], product = in[thread];
  float highest = in[thread], lowest = in[thread];
  reduce_row<kThreadsPerRow, kRowsPerBlock>(accumulator<Sum>(sum), accumulator<Max>(highest),
                                            accumulator<Min>(lowest), accumulator<Prod>(product));
  out[4 * thread] = sum;
  out[4 * thread + 1] = highest;
  out[4 * thread + 2] = lowest;
  out[4 * thread + 3] = product;
}

#define ROW_KERNEL(threads, rows)                                                   \
  FUSEBUILD_KERNEL((threads) * (rows), 1)                                           \
  rows_##threads##x##rows(const float* __restrict__ in, double* __restrict__ out) { \
    reduce_four<threads, rows>(in, out);                                            \
  }                                                                                 \
  FUSEBUILD_ENTRY(rows_##threads##x##rows)

ROW_KERNEL(1, 32)
ROW_KERNEL(2, 16)
ROW_KERNEL(4, 64)
ROW_KERNEL(8, 4)
ROW_KERNEL(16, 6)
ROW_KERNEL(32, 1)
ROW_KERNEL(32, 3)
ROW_KERNEL(64, 1)
ROW_KERNEL(64, 5)
ROW_KERNEL(128, 4)
ROW_KERNEL(256, 1)
ROW_KERNEL(256, 4)
ROW_KERNEL(512, 2)
ROW_KERNEL(1024, 1)

// The other types: wrapping int64 sums, int32 products and extremes, any and all.
FUSEBUILD_KERNEL(128, 1) rows_of_integers(const int64_t* __restrict__ in, int64_t* __restrict__ out) {
  int64_t sum = in[thread_x()];
  int32_t product = cast<int32_t>(in[thread_x()]), highest = product, lowest = product;
  bool any = in[thread_x()] == 3, all = in[thread_x()] != 3;
  reduce_row<128, 1>(accumulator<Sum>(sum), accumulator<Prod>(product), accumulator<Max>(highest),
                     accumulator<Min>(lowest), accumulator<Max>(any), accumulator<Min>(all));
  int64_t* mine = out + 6 * thread_x();
  mine[0] = sum;
  mine[1] = product;
  mine[2] = highest;
  mine[3] = lowest;
  mine[4] = any;
  mine[5] = all;
}
FUSEBUILD_ENTRY(rows_of_integers)

// identity() of every functor and type, as doubles.
FUSEBUILD_KERNEL(1, 1) identities(double* __restrict__ out) {
  int i = 0;
  out[i++] = Sum::identity<float>();
  out[i++] = Prod::identity<float>();
  out[i++] = Max::identity<float>();
  out[i++] = Min::identity<float>();
  out[i++] = Max::identity<double>();
  out[i++] = Min::identity<double>();
  out[i++] = Sum::identity<int64_t>();
  out[i++] = Prod::identity<int64_t>();
  out[i++] = Max::identity<int32_t>();
  out[i++] = Min::identity<int32_t>();
  out[i++] = Max::identity<bool>();
  out[i++] = Min::identity<bool>();
}
FUSEBUILD_ENTRY(identities)

// Softmax by rows: dependent reductions back to back, `rounds` times over. With and without a ReducePhase.
template <int kThreads, bool kAlternate>
FUSEBUILD_DEVICE void softmax_rounds(const float* in, float* out, int64_t rounds) {
  const int i = block_x() * kThreads + thread_x();
  float x = in[i];
  ReducePhase phase;
  for (int64_t round = 0; round < rounds; ++round) {
    float highest = x;
    if constexpr (kAlternate)
      reduce_row<kThreads, 1>(phase, accumulator<Max>(highest));
    else
      reduce_row<kThreads, 1>(accumulator<Max>(highest));
    const float weight = fb::exp(x - highest);
    float total = weight;
    if constexpr (kAlternate)
      reduce_row<kThreads, 1>(phase, accumulator<Sum>(total));
    else
      reduce_row<kThreads, 1>(accumulator<Sum>(total));
    x = weight / total;
  }
  out[i] = x;
}

FUSEBUILD_KERNEL(256, 1) softmax(const float* __restrict__ in, float* __restrict__ out, int64_t rounds) {
  softmax_rounds<256, false>(in, out, rounds);
}
FUSEBUILD_ENTRY(softmax)

FUSEBUILD_KERNEL(256, 1)
softmax_alternating(const float* __restrict__ in, float* __restrict__ out, int64_t rounds) {
  softmax_rounds<256, true>(in, out, rounds);
}
FUSEBUILD_ENTRY(softmax_alternating)

// Columns: each thread adds up N neighbouring columns of its rows, and the block combines them, `rounds`
// times over.
template <int kBlockX, int kBlockY, int N>
FUSEBUILD_DEVICE void reduce_three(const float* in, float* sums, float* extremes, int64_t rows,
                                   int64_t rounds) {
  constexpr int kColumns = kBlockX * N;
  for (int64_t round = 0; round < rounds; ++round) {
    Vec<float, N> sum;
    float highest[N];
    double lowest = Min::identity<double>();
    for (int k = 0; k < N; ++k) {
      sum[k] = Sum::identity<float>();
      highest[k] = Max::identity<float>();
    }
    for (int64_t row = thread_y(); row < rows; row += kBlockY) {
      const Vec<float, N> x = load<N>(in + row * kColumns + thread_x() * N);
      for (int k = 0; k < N; ++k) {
        sum[k] = Sum::combine(sum[k], x[k]);
        highest[k] = Max::combine(highest[k], x[k]);
        lowest = Min::combine(lowest, cast<double>(x[k]));
      }
    }
    reduce_columns<kBlockX, kBlockY>(accumulator<Sum>(sum), accumulator<Max>(highest),
                                     accumulator<Min>(lowest));
    if (thread_y() != 0) continue;
    store(sums + thread_x() * N, sum);
    for (int k = 0; k < N; ++k) extremes[thread_x() * N + k] = highest[k];
    extremes[kColumns + thread_x()] = cast<float>(lowest);
  }
}

#define COLUMN_KERNEL(width, height, n)                                                          \
  FUSEBUILD_KERNEL((width) * (height), 1)                                                        \
  columns_##width##x##height##_##n(const float* __restrict__ in, float* __restrict__ sums,       \
                                   float* __restrict__ extremes, int64_t rows, int64_t rounds) { \
    reduce_three<width, height, n>(in, sums, extremes, rows, rounds);                            \
  }                                                                                              \
  FUSEBUILD_ENTRY(columns_##width##x##height##_##n)

COLUMN_KERNEL(1, 32, 1)
COLUMN_KERNEL(1, 1024, 4)
COLUMN_KERNEL(2, 8, 1)
COLUMN_KERNEL(4, 64, 2)
COLUMN_KERNEL(16, 16, 4)
COLUMN_KERNEL(32, 1, 4)
COLUMN_KERNEL(32, 8, 4)
COLUMN_KERNEL(32, 32, 8)
COLUMN_KERNEL(64, 8, 8)
COLUMN_KERNEL(128, 2, 1)
