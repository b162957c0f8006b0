// Row reductions across the blocks of a cluster, with every functor of the header and with lambdas.

#include <fusebuild/kernel.cuh>

using namespace fusebuild;

// One element per thread of the cluster. Four results per thread, so that a test sees that all threads of all
// blocks agree.
template <int kThreadsPerRow, int kCluster>
FUSEBUILD_DEVICE void reduce_four(const float* in, double* out) {
  ClusterPhase phase = join_cluster();
  const int thread = block_x() * kThreadsPerRow + thread_x();
  double sum = in[thread], product = in[thread];
  float highest = in[thread], lowest = in[thread];
  reduce_row_in_cluster<kThreadsPerRow, kCluster>(phase, accumulator<Sum>(sum), accumulator<Max>(highest),
                                                  accumulator<Min>(lowest), accumulator<Prod>(product));
  out[4 * thread] = sum;
  out[4 * thread + 1] = highest;
  out[4 * thread + 2] = lowest;
  out[4 * thread + 3] = product;
}

#define CLUSTER_KERNEL(threads, cluster)                                               \
  FUSEBUILD_CLUSTER_KERNEL(threads, 1, cluster)                                        \
  rows_##threads##x##cluster(const float* __restrict__ in, double* __restrict__ out) { \
    reduce_four<threads, cluster>(in, out);                                            \
  }                                                                                    \
  FUSEBUILD_CLUSTER_ENTRY(rows_##threads##x##cluster, cluster)

CLUSTER_KERNEL(32, 2)
CLUSTER_KERNEL(32, 8)
CLUSTER_KERNEL(64, 4)
CLUSTER_KERNEL(256, 2)
CLUSTER_KERNEL(256, 8)
CLUSTER_KERNEL(512, 4)
CLUSTER_KERNEL(1024, 2)
CLUSTER_KERNEL(1024, 8)

// The same where the launch says how many threads a block has.
FUSEBUILD_CLUSTER_KERNEL(512, 1, 8)
rows_of_threads(const float* __restrict__ in, double* __restrict__ out) {
  ClusterPhase phase = join_cluster();
  const int threads = block_threads(), thread = block_x() * threads + thread_x();
  double sum = in[thread];
  float highest = in[thread];
  reduce_row_of_threads<512, 8>(phase, threads, accumulator<Sum>(sum), accumulator<Max>(highest));
  reduce_row_of_threads<512, 8>(phase, threads, accumulator<Max>(sum));
  out[2 * thread] = sum;
  out[2 * thread + 1] = highest;
}
FUSEBUILD_CLUSTER_ENTRY(rows_of_threads, 8)

// The other types: wrapping int64 sums, int32 products and extremes, any and all.
FUSEBUILD_CLUSTER_KERNEL(64, 1, 4)
rows_of_integers(const int64_t* __restrict__ in, int64_t* __restrict__ out) {
  ClusterPhase phase = join_cluster();
  const int thread = block_x() * 64 + thread_x();
  int64_t sum = in[thread];
  int32_t product = cast<int32_t>(in[thread]), highest = product, lowest = product;
  bool any = in[thread] == 3, all = in[thread] != 3;
  reduce_row_in_cluster<64, 4>(phase, accumulator<Sum>(sum), accumulator<Prod>(product),
                               accumulator<Max>(highest), accumulator<Min>(lowest), accumulator<Max>(any),
                               accumulator<Min>(all));
  int64_t* mine = out + 6 * thread;
  mine[0] = sum;
  mine[1] = product;
  mine[2] = highest;
  mine[3] = lowest;
  mine[4] = any;
  mine[5] = all;
}
FUSEBUILD_CLUSTER_ENTRY(rows_of_integers, 4)

// A single byte on its way: whether any element is 3.
FUSEBUILD_CLUSTER_KERNEL(32, 1, 2) any_is_three(const int64_t* __restrict__ in, int64_t* __restrict__ out) {
  ClusterPhase phase = join_cluster();
  const int thread = block_x() * 32 + thread_x();
  bool any = in[thread] == 3;
  reduce_row_in_cluster<32, 2>(phase, accumulator<Max>(any));
  out[thread] = any;
}
FUSEBUILD_CLUSTER_ENTRY(any_is_three, 2)

// More values than fit in a buffer: they take several turns.
FUSEBUILD_CLUSTER_KERNEL(1024, 1, 8) many_sums(const float* __restrict__ in, double* __restrict__ out) {
  ClusterPhase phase = join_cluster();
  const int thread = block_x() * 1024 + thread_x();
  double sums[9];
  for (int k = 0; k < 9; ++k) sums[k] = in[thread] * (k + 1);
  reduce_row_in_cluster<1024, 8>(phase, accumulator<Sum>(sums));
  for (int k = 0; k < 9; ++k) out[9 * thread + k] = sums[k];
}
FUSEBUILD_CLUSTER_ENTRY(many_sums, 8)

// Softmax by rows: dependent reductions of two kinds back to back, `rounds` times over.
FUSEBUILD_CLUSTER_KERNEL(64, 1, 4)
softmax(const float* __restrict__ in, float* __restrict__ out, int64_t rounds) {
  ClusterPhase phase = join_cluster();
  const int thread = block_x() * 64 + thread_x();
  float x = in[thread];
  for (int64_t round = 0; round < rounds; ++round) {
    float highest = x;
    reduce_row_in_cluster<64, 4>(phase, accumulator<Max>(highest));
    const float weight = fb::exp(x - highest);
    double total = weight;
    reduce_row_in_cluster<64, 4>(phase, accumulator<Sum>(total));
    x = cast<float>(weight / total);
  }
  out[thread] = x;
}
FUSEBUILD_CLUSTER_ENTRY(softmax, 4)

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

// Five bytes, which are sent as two words.
struct Flags {
  struct State {
    bool v0;
    bool v1;
    bool v2;
    bool v3;
    bool v4;
  };
  static FUSEBUILD_DEVICE State combine(const State& a, const State& b) {
    return {a.v0 != b.v0, a.v1 || b.v1, a.v2 && b.v2, a.v3 != b.v3, a.v4 || b.v4};
  }
};

// Two lambdas beside a functor of the header; nine results for each thread.
template <int kThreadsPerRow, int kCluster>
FUSEBUILD_DEVICE void reduce_to_statistics(const float* in, double* out) {
  ClusterPhase phase = join_cluster();
  const int thread = block_x() * kThreadsPerRow + thread_x();
  const float x = in[thread];
  Deviations::State state = {x, 0.0f, 1.0};
  Flags::State flags = {x > 0.0f, x > 1.0f, x > 2.0f, x > 1.5f, x > 50.0f};
  float highest = x;
  reduce_row_in_cluster<kThreadsPerRow, kCluster>(phase, accumulator<Deviations>(state),
                                                  accumulator<Max>(highest), accumulator<Flags>(flags));
  double* mine = out + 9 * thread;
  mine[0] = state.v0;
  mine[1] = state.v1;
  mine[2] = state.v2;
  mine[3] = highest;
  mine[4] = flags.v0;
  mine[5] = flags.v1;
  mine[6] = flags.v2;
  mine[7] = flags.v3;
  mine[8] = flags.v4;
}

#define STATISTICS_KERNEL(threads, cluster)                                                  \
  FUSEBUILD_CLUSTER_KERNEL(threads, 1, cluster)                                              \
  statistics_##threads##x##cluster(const float* __restrict__ in, double* __restrict__ out) { \
    reduce_to_statistics<threads, cluster>(in, out);                                         \
  }                                                                                          \
  FUSEBUILD_CLUSTER_ENTRY(statistics_##threads##x##cluster, cluster)

STATISTICS_KERNEL(32, 2)
STATISTICS_KERNEL(64, 4)
STATISTICS_KERNEL(512, 8)

// Each block writes to global memory what, after the barrier, its neighbour reads.
FUSEBUILD_CLUSTER_KERNEL(64, 1, 4) pass_on(int64_t* scratch, int64_t* __restrict__ out) {
  const int thread = block_x() * 64 + thread_x();
  scratch[thread] = 3 * thread;
  sync_cluster();
  const int neighbour = block_x() - cluster_rank<4>() + (cluster_rank<4>() + 1) % 4;
  out[thread] = *const_cast<volatile int64_t*>(scratch + neighbour * 64 + 63 - thread_x());
}
FUSEBUILD_CLUSTER_ENTRY(pass_on, 4)

// Clusters take rows as they get to them. Each thread adds its row's sum to what it has of that row.
template <int kThreadsPerRow, int kCluster>
FUSEBUILD_DEVICE void take_rows(const float* in, double* out, int* counter, int64_t rows) {
  const int64_t walkers = grid_x() / kCluster;
  const int thread = cluster_rank<kCluster>() * kThreadsPerRow + thread_x();
  ClusterPhase phase = join_cluster();
  int ticket = draw_ticket<kCluster>(counter);
  meet_cluster(phase);
  for (int64_t row = block_x() / kCluster; row < rows;) {
    const int64_t place = row * kCluster * kThreadsPerRow + thread;
    float sum = in[place];
    ticket = await_ticket(ticket);
    reduce_row_in_cluster<kThreadsPerRow, kCluster>(phase, accumulator<Sum>(sum), accumulator<Max>(ticket));
    const int64_t next = walkers + ticket;
    ticket = draw_ticket<kCluster>(counter);
    out[place] += sum;
    row = next;
  }
}

#define TAKING_KERNEL(threads, cluster)                                                                 \
  FUSEBUILD_CLUSTER_KERNEL(threads, 1, cluster)                                                         \
  take_rows_##threads##x##cluster(const float* __restrict__ in, double* __restrict__ out, int* counter, \
                                  int64_t rows) {                                                       \
    take_rows<threads, cluster>(in, out, counter, rows);                                                \
  }                                                                                                     \
  FUSEBUILD_CLUSTER_ENTRY(take_rows_##threads##x##cluster, cluster)

TAKING_KERNEL(64, 2)
TAKING_KERNEL(32, 8)

// Columns that the blocks of a cluster share: 64 threads of each have `width` beside each other, and one
// element.
FUSEBUILD_CLUSTER_KERNEL(64, 1, 8)
columns_in_first_block(const float* __restrict__ in, double* __restrict__ out, int64_t width) {
  const Place place = place_of<64>(static_cast<int>(width));
  const float own = in[block_x() * 64 + thread_x()];
  const bool is_there = place.y < place.height;
  Vec<double, 2> sums{is_there ? own : 0.0, is_there ? 2.0 * own : 0.0};
  float highest = is_there ? own : kLowest<float>;
  reduce_columns_of<64>(place.x, place.y, static_cast<int>(width), place.height, accumulator<Sum>(sums),
                        accumulator<Max>(highest));
  const bool is_first = reduce_in_first_block<64, 16>(place.x, place.y, static_cast<int>(width),
                                                      accumulator<Sum>(sums), accumulator<Max>(highest));
  if (!is_first || place.y != 0) return;
  double* mine = out + 3 * (block_x() / 8 * width + place.x);
  mine[0] = sums[0];
  mine[1] = sums[1];
  mine[2] = highest;
}
FUSEBUILD_CLUSTER_ENTRY(columns_in_first_block, 8)
