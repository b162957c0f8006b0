// ordered.yaml, segment 1: scan, variant vec4_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 3, 20: 41, 21: 42, 22: 43}
// schedule: threads=64
// launch: segment 1, vec4_int32 on sm_90: grid ceil_div(ceil_div(N, 4), 64), 1, 1; block 64, 1, 1; overlaps what is
//   before; given a, b, scale, z, column_end, low_slope, M, N; if M*N < 2146435072, (N % 4) == 0, aligned(a, 16),
//   aligned(b, 16), aligned(scale, 16), aligned(z, 16), aligned(column_end, 16), aligned(low_slope, 16)
#include <fusebuild/kernel.cuh>

using Index = int32_t;

namespace lambdas {

struct compose {
  struct State {
    double v0;  // slope
    double v1;  // offset
  };
  static FUSEBUILD_DEVICE State combine(const State& a, const State& b) {
    const double s4 = a.v0 * b.v0;  // slope, ordered.yaml:15
    const double s5 = a.v1 * b.v0;  // ordered.yaml:16
    const double s6 = s5 + b.v1;  // offset, ordered.yaml:16
    return {s4, s6};
  }
};

}  // namespace lambdas

constexpr int kThreads = 64;
constexpr int kVec = 4;  // columns per thread

FUSEBUILD_KERNEL(kThreads, 2)
scan_outer_3f137f08e154b602(
    const float* T0,  // a: float[M, N]
    const float* T1,  // b: float[M, N]
    const float* T2,  // scale: float[N]
    float* __restrict__ T20,  // z: float[M, N]
    float* __restrict__ T21,  // column_end: float[1, N]
    float* __restrict__ T22,  // low_slope: float[1, N]
    int64_t n0,  // M
    int64_t n1) {  // N
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const int64_t columns = n1;
  const Index depth = n0;
  const Index inner = (Index(fb::block_x()) * kThreads + fb::thread_x()) * kVec;
  if (inner >= columns) return;

  auto a11 = fb::states<lambdas::compose, kVec>({1.0, 0.0});
  auto a15 = fb::states<lambdas::compose, kVec>({1.0, 0.0});
  FUSEBUILD_UNROLL_BY(4)
  for (Index r = 0; r < depth; ++r) {
    const fb::Vec<float, kVec> v0 = fb::load<kVec>(T0 + r * n1 + inner);
    const fb::Vec<float, kVec> v1 = fb::load<kVec>(T1 + r * n1 + inner);
    const fb::Vec<float, kVec> v2 = fb::load<kVec>(T2 + inner);
    fb::Vec<float, kVec> o20;
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const float t0 = v0[k];
      const float t1 = v1[k];
      const float t2 = v2[k];
      const bool t4 = t1 > 0.0f;  // ordered.yaml:20
      const double t7 = fb::where(t4, 1.0, -1.0);  // ordered.yaml:20
      const float t9 = t0 * 0.0001f;  // ordered.yaml:20
      const double t10 = t7 + fb::cast<double>(t9);  // slope, ordered.yaml:20
      a11[k] = lambdas::compose::combine(a11[k], {t10, fb::cast<double>(t1)});
      a15[k] = lambdas::compose::combine(a15[k], {t10, fb::cast<double>(t1)});
      const double t16 = a15[k].v1;  // down, ordered.yaml:26
      const double t18 = t16 * fb::cast<double>(t2);  // z, ordered.yaml:27
      const float t20 = fb::cast<float>(t18);  // ordered.yaml:34
      o20[k] = t20;
    }
    fb::store(T20 + r * n1 + inner, o20);
  }
  FUSEBUILD_UNROLL
  for (int k = 0; k < kVec; ++k) {
    const double t11 = a11[k].v0;  // low_slope_reduced, ordered.yaml:25
    const double t12 = a11[k].v1;  // low_reduced, ordered.yaml:25
    const float t2 = T2[inner + k];  // scale
    const double t19 = t12 * fb::cast<double>(t2);  // column_end, ordered.yaml:28
    const float t21 = fb::cast<float>(t19);  // ordered.yaml:35
    const float t22 = fb::cast<float>(t11);  // ordered.yaml:36
    T21[inner + k] = t21;
    T22[inner + k] = t22;
  }
}

FUSEBUILD_ENTRY(scan_outer_3f137f08e154b602)
