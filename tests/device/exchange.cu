// Row reductions in two halves, a row begun before the one ahead of it is finished.

#include <fusebuild/kernel.cuh>

using namespace fusebuild;

// Mean, squared deviations and count, as Chan, Golub and LeVeque (1979) combine them: commutes up to
// rounding.
struct Deviations {
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
};

// What threads have of a row, one element each. Three sums share the lanes of a warp.
struct Sums {
  static constexpr int kResults = 3;
  float pair[2], alone;

  FUSEBUILD_DEVICE explicit Sums(float x = 0.0f) : pair{x, 2.0f * x}, alone(x * x) {}

  template <typename Use>
  FUSEBUILD_DEVICE void use(const Use& with) {
    with(accumulator<Sum>(pair), accumulator<Sum>(alone));
  }
  FUSEBUILD_DEVICE double result(int number) const { return number < 2 ? pair[number] : alone; }
};

struct One {
  static constexpr int kResults = 1;
  double highest;

  FUSEBUILD_DEVICE explicit One(float x = 0.0f) : highest(x) {}

  template <typename Use>
  FUSEBUILD_DEVICE void use(const Use& with) {
    with(accumulator<Max>(highest));
  }
  FUSEBUILD_DEVICE double result(int) const { return highest; }
};

// Functors and types of several kinds, each of which is combined on its own.
struct Kinds {
  static constexpr int kResults = 7;
  Deviations::State state;
  double sum;
  float extremes[2];
  bool any;

  FUSEBUILD_DEVICE explicit Kinds(float x = 0.0f)
      : state{x, 0.0f, 1.0}, sum(x), extremes{x, -x}, any(x > 3.0f) {}

  template <typename Use>
  FUSEBUILD_DEVICE void use(const Use& with) {
    with(accumulator<Deviations>(state), accumulator<Sum>(sum), accumulator<Max>(extremes),
         accumulator<Max>(any));
  }
  FUSEBUILD_DEVICE double result(int number) const {
    const double results[] = {state.v0, state.v1, state.v2, sum, extremes[0], extremes[1], double(any)};
    return results[number];
  }
};

template <int kThreads, int kCluster>
struct Begin {
  ExchangePhase& phase;

  template <typename... Accumulators>
  FUSEBUILD_DEVICE void operator()(const Accumulators&... accumulators) const {
    begin_reduce_row<kThreads, kCluster>(phase, accumulators...);
  }
};

template <int kThreads, int kCluster>
struct Finish {
  ExchangePhase& phase;

  template <typename... Accumulators>
  FUSEBUILD_DEVICE void operator()(const Accumulators&... accumulators) const {
    finish_reduce_row<kThreads, kCluster>(phase, accumulators...);
  }
};

// One cluster walks `rows`, `together` of them until the last is finished before the next one is begun. Every
// thread leaves its results.
template <int kThreads, int kCluster, typename Row>
FUSEBUILD_DEVICE void walk(const float* in, double* out, int64_t rows, int64_t together) {
  constexpr int kColumns = kThreads * kCluster;
  ExchangePhase phase = join_exchange();
  const int lane = cluster_rank<kCluster>() * kThreads + thread_x();
  wait_cluster();
  for (int64_t first = 0; first < rows; first += together) {
    const int64_t last = first + together < rows ? first + together : rows;
    for (int64_t row = first - 1; row < last; ++row) {
      if (row + 1 < last) {
        const float* next = in + (row + 1) * (kColumns + 1);
        Row ahead(uniform(load_ahead(next)) * next[1 + lane]);
        ahead.use(Begin<kThreads, kCluster>{phase});
      }
      if (row >= first) {
        Row done;
        done.use(Finish<kThreads, kCluster>{phase});
        for (int k = 0; k < Row::kResults; ++k)
          out[(row * kColumns + lane) * Row::kResults + k] = done.result(k);
      }
    }
  }
}

#define WALK_KERNEL(Row, threads, cluster)                                                                 \
  FUSEBUILD_CLUSTER_KERNEL(threads, 1, cluster)                                                            \
  walk_##Row##_##threads##x##cluster(const float* __restrict__ in, double* __restrict__ out, int64_t rows, \
                                     int64_t together) {                                                   \
    walk<threads, cluster, Row>(in, out, rows, together);                                                  \
  }                                                                                                        \
  FUSEBUILD_CLUSTER_ENTRY(walk_##Row##_##threads##x##cluster, cluster)

WALK_KERNEL(Sums, 32, 2)
WALK_KERNEL(Sums, 64, 8)
WALK_KERNEL(Sums, 256, 4)
WALK_KERNEL(Sums, 512, 2)
WALK_KERNEL(One, 32, 8)
WALK_KERNEL(One, 128, 4)
WALK_KERNEL(One, 1024, 2)
WALK_KERNEL(Kinds, 32, 2)
WALK_KERNEL(Kinds, 64, 4)
WALK_KERNEL(Kinds, 256, 8)
