// batches_outer.yaml, segment 0: reduction, variant vec2_int32_split64
// segment fids to original fids: {0: 0, 1: 1, 5: 2, 6: 3, 12: 4, 19: 5, 23: 6, 26: 7}
// schedule: block_x=32 block_y=8 unroll=4 splits=64
// launch: segment 0, vec2_int32_split64 1 of 2 on sm_90: grid ceil_div(N, 64), 64, 1; block 32, 8, 1; given x, d, slot
//   0 of 256*N bytes, slot 1 of 256*N bytes, slot 2 of 512*N bytes, slot 3 of 512*N bytes, slot 4 of 256*N bytes, slot
//   5 of 512*N bytes, slot 6 of 512*N bytes, slot 7 of 512*N bytes, slot 8 of 256*N bytes, M, N; if M*N < 2146435072,
//   (N % 2) == 0, aligned(x, 4), aligned(d, 16), aligned(top, 8), aligned(total, 8), aligned(log_sum, 16),
//   aligned(largest, 16), aligned(smallest, 16), aligned(mean, 8)
#include <fusebuild/kernel.cuh>

using Index = int32_t;

namespace lambdas {

struct builtin_argmax_float {
  struct State {
    float v0;  // value
    int64_t v1;  // index
  };
  static FUSEBUILD_DEVICE State combine(const State& a, const State& b) {
    const bool s4 = a.v0 > b.v0;
    const bool s5 = a.v0 == b.v0;
    const bool s6 = fb::isnan(a.v0);
    const bool s7 = fb::isnan(b.v0);
    const bool s8 = !s7;
    const bool s9 = s6 && s8;
    const bool s10 = s4 || s9;
    const bool s11 = s6 && s7;
    const bool s12 = s5 || s11;
    const bool s13 = a.v1 < b.v1;
    const bool s14 = s12 && s13;
    const bool s15 = s10 || s14;  // keep
    const float s16 = fb::where(s15, a.v0, b.v0);  // value
    const int64_t s17 = fb::where(s15, a.v1, b.v1);  // index
    return {s16, s17};
  }
};

struct builtin_argmin_double {
  struct State {
    double v0;  // value
    int64_t v1;  // index
  };
  static FUSEBUILD_DEVICE State combine(const State& a, const State& b) {
    const bool s4 = a.v0 < b.v0;
    const bool s5 = a.v0 == b.v0;
    const bool s6 = fb::isnan(a.v0);
    const bool s7 = fb::isnan(b.v0);
    const bool s8 = !s7;
    const bool s9 = s6 && s8;
    const bool s10 = s4 || s9;
    const bool s11 = s6 && s7;
    const bool s12 = s5 || s11;
    const bool s13 = a.v1 < b.v1;
    const bool s14 = s12 && s13;
    const bool s15 = s10 || s14;  // keep
    const double s16 = fb::where(s15, a.v0, b.v0);  // value
    const int64_t s17 = fb::where(s15, a.v1, b.v1);  // index
    return {s16, s17};
  }
};

}  // namespace lambdas

constexpr int kBlockX = 32, kBlockY = 8;  // threads side by side, threads that share columns
constexpr int kVec = 2;  // columns per thread
constexpr int kUnroll = 4;  // rows in flight per thread
constexpr int kSplits = 64;  // blocks that take a column's rows in turns; reduction_finish combines them in order

FUSEBUILD_KERNEL(kBlockX * kBlockY, 2)
reduction_outer_d1bf1a6596e2ec8f(
    const __nv_bfloat16* __restrict__ T0,  // x: bfloat16[M, N]
    const double* __restrict__ T1,  // d: double[M, N]
    float* __restrict__ P5,  // partial results of top
    float* __restrict__ P6,  // partial results of total
    double* __restrict__ P7,  // partial results of log_sum_max
    double* __restrict__ P8,  // partial results of log_sum_sum
    float* __restrict__ P18,  // partial results of largest_value
    int64_t* __restrict__ P19,  // partial results of largest
    double* __restrict__ P21,  // partial results of smallest_value_reduced
    int64_t* __restrict__ P22,  // partial results of smallest_reduced
    float* __restrict__ P25,  // partial results of mean_sum
    int64_t n0,  // M
    int64_t n1) {  // N
  fb::let_next_kernel_start();  // it waits for the end of this one
  const int64_t columns = n1;
  const Index depth = n0;
  const Index inner = (Index(fb::block_x()) * kBlockX + fb::thread_x()) * kVec;
  const int split = fb::block_y();
  const Index end = inner < columns ? depth : 0;  // threads beside the columns have no rows
  const Index first = Index(split) * (kUnroll * kBlockY) + fb::thread_y();

  auto a5 = fb::states<fb::ExpSum<float>, kVec>({float(-INFINITY), 0.0f});
  auto a7 = fb::states<fb::ExpSum<double>, kVec>({double(-INFINITY), 0.0});
  fb::Vec<float, kVec> a25 = fb::splat<kVec>(fb::Sum::identity<float>());
  fb::FirstBest<fb::Max, float, 1, Index> w18[kVec];
  fb::FirstBest<fb::Min, double, 1, Index> w21[kVec];
  for (Index top = first; top < end; top += kSplits * kUnroll * kBlockY) {
    fb::Packed<__nv_bfloat16, kVec> c0[kUnroll];
    fb::Packed<double, kVec> c1[kUnroll];
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index r = top + u * kBlockY;
      if (r >= end) break;
      c0[u] = fb::load_packed<kVec>(T0 + r * n1 + inner);
      c1[u] = fb::load_packed<kVec>(T1 + r * n1 + inner);
    }
    fb::Vec<fb::Vec<float, kUnroll>, kVec> e5 = fb::splat<kVec>(fb::splat<kUnroll>(float(-INFINITY)));
    fb::Vec<fb::Vec<double, kUnroll>, kVec> e7 = fb::splat<kVec>(fb::splat<kUnroll>(double(-INFINITY)));
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index r = top + u * kBlockY;
      if (r >= end) break;
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(c0[u]);
      const fb::Vec<double, kVec> v1 = fb::unpack(c1[u]);
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t0 = v0[k];
        const double t1 = v1[k];
        a25[k] = fb::Sum::combine(a25[k], fb::cast<float>(t0));
        w18[k].add(fb::Vec<float, 1>{fb::cast<float>(t0)}, r);
        w21[k].add(fb::Vec<double, 1>{t1}, r);
        e5[k][u] = fb::cast<float>(t0);
        e7[k][u] = t1;
      }
    }
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      fb::add_exponentials(a5[k], e5[k]);
      fb::add_exponentials(a7[k], e7[k]);
    }
  }
  auto a18 = fb::states<lambdas::builtin_argmax_float>(w18, {float(-INFINITY), int64_t(9223372036854775807LL)});
  auto a21 = fb::states<lambdas::builtin_argmin_double>(w21, {double(INFINITY), int64_t(9223372036854775807LL)});
  fb::reduce_columns<kBlockX, kBlockY>(fb::accumulator<fb::ExpSum<float>>(a5), fb::accumulator<fb::ExpSum<double>>(a7),
      fb::accumulator<lambdas::builtin_argmax_float>(a18), fb::accumulator<lambdas::builtin_argmin_double>(a21),
      fb::accumulator<fb::Sum>(a25));
  if (fb::thread_y() != 0 || inner >= columns) return;
  FUSEBUILD_UNROLL
  for (int k = 0; k < kVec; ++k) {
    P5[split * n1 + inner + k] = a5[k].v0;
    P6[split * n1 + inner + k] = a5[k].v1;
    P7[split * n1 + inner + k] = a7[k].v0;
    P8[split * n1 + inner + k] = a7[k].v1;
    P18[split * n1 + inner + k] = a18[k].v0;
    P19[split * n1 + inner + k] = a18[k].v1;
    P21[split * n1 + inner + k] = a21[k].v0;
    P22[split * n1 + inner + k] = a21[k].v1;
    P25[split * n1 + inner + k] = a25[k];
  }
}

FUSEBUILD_ENTRY(reduction_outer_d1bf1a6596e2ec8f)
