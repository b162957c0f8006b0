// Scans of rows by blocks of every size, with states of one byte to several words, and reductions with
// lambdas.

#include <fusebuild/kernel.cuh>

using namespace fusebuild;

// The map x -> v0 * x + v1, and after it another one: exact, and the order matters.
struct Affine {
  static constexpr int kParts = 2;
  struct State {
    int64_t v0;
    int64_t v1;
  };
  static FUSEBUILD_DEVICE State combine(const State& a, const State& b) {
    return {mul(a.v0, b.v0), add(mul(a.v1, b.v0), b.v1)};
  }
  static FUSEBUILD_DEVICE State identity() { return {1, 0}; }
  static FUSEBUILD_DEVICE State element(int64_t x) { return {x % 4 * 2 + 1, x}; }
  static FUSEBUILD_DEVICE void write(const State& state, int64_t* out) {
    out[0] = state.v0;
    out[1] = state.v1;
  }
};

// Products of 2 x 2 matrices, beside whether an odd number of them was odd: 20 bytes.
struct Matrix {
  static constexpr int kParts = 5;
  struct State {
    int32_t v0;
    int32_t v1;
    int32_t v2;
    int32_t v3;
    bool v4;
  };
  static FUSEBUILD_DEVICE State combine(const State& a, const State& b) {
    return {add(mul(a.v0, b.v0), mul(a.v1, b.v2)), add(mul(a.v0, b.v1), mul(a.v1, b.v3)),
            add(mul(a.v2, b.v0), mul(a.v3, b.v2)), add(mul(a.v2, b.v1), mul(a.v3, b.v3)), a.v4 != b.v4};
  }
  static FUSEBUILD_DEVICE State identity() { return {1, 0, 0, 1, false}; }
  static FUSEBUILD_DEVICE State element(int64_t x) {
    const int32_t low = cast<int32_t>(x % 7);
    return {low, 1, low - 3, cast<int32_t>(x % 5), x % 2 != 0};
  }
  static FUSEBUILD_DEVICE void write(const State& state, int64_t* out) {
    out[0] = state.v0;
    out[1] = state.v1;
    out[2] = state.v2;
    out[3] = state.v3;
    out[4] = state.v4;
  }
};

// Whether any element so far was a multiple of 97: one byte.
struct Seen {
  static constexpr int kParts = 1;
  struct State {
    bool v0;
  };
  static FUSEBUILD_DEVICE State combine(const State& a, const State& b) { return {a.v0 || b.v0}; }
  static FUSEBUILD_DEVICE State identity() { return {false}; }
  static FUSEBUILD_DEVICE State element(int64_t x) { return {x % 97 == 0}; }
  static FUSEBUILD_DEVICE void write(const State& state, int64_t* out) { out[0] = state.v0; }
};

// One row a block, tile by tile: the scanned elements, and what each thread holds as the row's total. Every
// tile is scanned twice, so that calls follow each other with nothing but their ReducePhase between them; the
// second must give what the first gave, or `out` gets -1.
template <typename Op, int kThreads, int N>
FUSEBUILD_DEVICE void scan_rows(const int64_t* in, int64_t* out, int64_t* totals, int64_t columns) {
  const int64_t* row = in + block_x() * columns;
  typename Op::State carry = Op::identity(), again = Op::identity();
  ReducePhase phase;
  for (int64_t tile = 0; tile < columns; tile += kThreads * N) {
    const int64_t first = tile + thread_x() * N;
    auto items = states<Op, N>(Op::identity());
    for (int k = 0; k < N; ++k) {
      if (first + k < columns) items[k] = Op::element(row[first + k]);
    }
    auto repeated = items;
    scan_block<kThreads>(phase, carry, items);
    scan_block<kThreads>(phase, again, repeated);
    for (int k = 0; k < N && first + k < columns; ++k) {
      int64_t mine[Op::kParts], other[Op::kParts];
      Op::write(items[k], mine);
      Op::write(repeated[k], other);
      int64_t* place = out + (block_x() * columns + first + k) * Op::kParts;
      for (int part = 0; part < Op::kParts; ++part) place[part] = mine[part] == other[part] ? mine[part] : -1;
    }
  }
  Op::write(carry, totals + (block_x() * kThreads + thread_x()) * Op::kParts);
}

#define SCAN_KERNEL(op, threads, n)                                                      \
  FUSEBUILD_KERNEL(threads, 1)                                                           \
  scan_##op##_##threads##x##n(const int64_t* __restrict__ in, int64_t* __restrict__ out, \
                              int64_t* __restrict__ totals, int64_t columns) {           \
    scan_rows<op, threads, n>(in, out, totals, columns);                                 \
  }                                                                                      \
  FUSEBUILD_ENTRY(scan_##op##_##threads##x##n)

SCAN_KERNEL(Affine, 32, 1)
SCAN_KERNEL(Affine, 32, 4)
SCAN_KERNEL(Affine, 64, 2)
SCAN_KERNEL(Affine, 128, 1)
SCAN_KERNEL(Affine, 128, 8)
SCAN_KERNEL(Affine, 256, 2)
SCAN_KERNEL(Seen, 1024, 1)
SCAN_KERNEL(Matrix, 32, 2)
SCAN_KERNEL(Matrix, 64, 1)
SCAN_KERNEL(Matrix, 96, 1)
SCAN_KERNEL(Matrix, 128, 2)
SCAN_KERNEL(Matrix, 256, 1)
SCAN_KERNEL(Matrix, 256, 4)
SCAN_KERNEL(Seen, 32, 4)
SCAN_KERNEL(Seen, 64, 1)
SCAN_KERNEL(Seen, 256, 8)

// The prefixes within each warp.
FUSEBUILD_KERNEL(64, 1) scan_each_warp(const int64_t* __restrict__ in, int64_t* __restrict__ out) {
  Matrix::State state = Matrix::element(in[thread_x()]);
  scan_warp<Matrix>(state);
  Matrix::write(state, out + thread_x() * Matrix::kParts);
}
FUSEBUILD_ENTRY(scan_each_warp)

// Mean, squared deviations and count, as Chan, Golub and LeVeque (1979) combine them: commutes up to
// rounding.
struct Chan {
  struct State {
    float v0;
    float v1;
    double v2;
  };
  static FUSEBUILD_DEVICE State combine(const State& a, const State& b) {
    const double count = a.v2 + b.v2;
    const float delta = b.v0 - a.v0, share = cast<float>(b.v2 / maximum(count, 1.0));
    return {a.v0 + delta * share, a.v1 + b.v1 + delta * delta * cast<float>(a.v2) * share, count};
  }
  static FUSEBUILD_DEVICE State identity() { return {0.0f, 0.0f, 0.0}; }
};

// Beside a reduction with a functor of the header; five results for each thread.
template <int kThreadsPerRow, int kRowsPerBlock>
FUSEBUILD_DEVICE void reduce_to_statistics(const float* in, double* out) {
  const int thread = block_x() * kThreadsPerRow * kRowsPerBlock + thread_x();
  Chan::State state = {in[thread], 0.0f, 1.0};
  float highest = in[thread];
  reduce_row<kThreadsPerRow, kRowsPerBlock>(accumulator<Chan>(state), accumulator<Max>(highest));
  double* mine = out + 4 * thread;
  mine[0] = state.v0;
  mine[1] = state.v1;
  mine[2] = state.v2;
  mine[3] = highest;
}

#define STATISTICS_KERNEL(threads, rows)                                                  \
  FUSEBUILD_KERNEL((threads) * (rows), 1)                                                 \
  statistics_##threads##x##rows(const float* __restrict__ in, double* __restrict__ out) { \
    reduce_to_statistics<threads, rows>(in, out);                                         \
  }                                                                                       \
  FUSEBUILD_ENTRY(statistics_##threads##x##rows)

STATISTICS_KERNEL(8, 16)
STATISTICS_KERNEL(32, 1)
STATISTICS_KERNEL(64, 2)
STATISTICS_KERNEL(256, 1)
STATISTICS_KERNEL(1024, 1)

// Columns: N neighbouring ones a thread, the rows of a block combined over y.
template <int kBlockX, int kBlockY, int N>
FUSEBUILD_DEVICE void column_statistics(const float* in, double* out, int64_t rows) {
  constexpr int kColumns = kBlockX * N;
  auto state = states<Chan, N>(Chan::identity());
  for (int64_t row = thread_y(); row < rows; row += kBlockY) {
    const Vec<float, N> x = load<N>(in + row * kColumns + thread_x() * N);
    for (int k = 0; k < N; ++k) state[k] = Chan::combine(state[k], {x[k], 0.0f, 1.0});
  }
  reduce_columns<kBlockX, kBlockY>(accumulator<Chan>(state));
  if (thread_y() != 0) return;
  for (int k = 0; k < N; ++k) {
    double* mine = out + 3 * (thread_x() * N + k);
    mine[0] = state[k].v0;
    mine[1] = state[k].v1;
    mine[2] = state[k].v2;
  }
}

#define COLUMN_STATISTICS_KERNEL(width, height, n)                                                   \
  FUSEBUILD_KERNEL((width) * (height), 1)                                                            \
  column_statistics_##width##x##height##_##n(const float* __restrict__ in, double* __restrict__ out, \
                                             int64_t rows) {                                         \
    column_statistics<width, height, n>(in, out, rows);                                              \
  }                                                                                                  \
  FUSEBUILD_ENTRY(column_statistics_##width##x##height##_##n)

COLUMN_STATISTICS_KERNEL(4, 16, 2)
COLUMN_STATISTICS_KERNEL(32, 8, 4)
COLUMN_STATISTICS_KERNEL(128, 2, 1)
