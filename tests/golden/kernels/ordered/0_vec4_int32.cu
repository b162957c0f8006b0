// ordered.yaml, segment 0: scan, variant vec4_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 3: 4, 19: 38, 20: 39, 21: 40}
// schedule: threads=256
// launch: segment 0, vec4_int32 on sm_90: grid M, 1, 1; block 256, 1, 1; overlaps what is before; given a, b, bias, y,
//   row_end, end_slope, gain, N; if M*N < 2146435072, (N % 4) == 0, aligned(a, 16), aligned(b, 16), aligned(y, 8)
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

constexpr int kThreads = 256;  // they walk one row, tile by tile
constexpr int kVec = 4;  // neighbouring elements per thread

FUSEBUILD_KERNEL(kThreads, 2)
scan_b93f95daa96148f0(
    const float* T0,  // a: float[M, N]
    const float* T1,  // b: float[M, N]
    const float* T2,  // bias: float[M]
    __nv_bfloat16* __restrict__ T19,  // y: bfloat16[M, N]
    float* __restrict__ T20,  // row_end: float[M]
    float* __restrict__ T21,  // end_slope: float[M]
    float s3,  // gain
    int64_t n1) {  // N
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const Index columns = n1;
  const int64_t row = fb::block_x();
  const float t2 = T2[row];  // bias
  const float* r0 = T0 + row * n1;
  const float* r1 = T1 + row * n1;
  __nv_bfloat16* r19 = T19 + row * n1;

  lambdas::compose::State a12 = {1.0, 0.0};
  lambdas::compose::State a14 = {1.0, 0.0};
  fb::ReducePhase phase;
  for (Index tile = 0; tile < columns; tile += kThreads * kVec) {
    const Index wanted = tile + Index(fb::thread_x()) * kVec;
    const bool active = wanted < columns;  // spare threads repeat the first elements and combine nothing
    const Index col = active ? wanted : 0;
    const fb::Vec<float, kVec> v0 = fb::load<kVec>(r0 + col);
    const fb::Vec<float, kVec> v1 = fb::load<kVec>(r1 + col);
    auto x12 = fb::states<lambdas::compose, kVec>({1.0, 0.0});
    auto x14 = fb::states<lambdas::compose, kVec>({1.0, 0.0});
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const float t0 = v0[k];
      const float t1 = v1[k];
      const bool t5 = t1 > 0.0f;  // ordered.yaml:20
      const double t8 = fb::where(t5, 1.0, -1.0);  // ordered.yaml:20
      const float t10 = t0 * 0.0001f;  // ordered.yaml:20
      const double t11 = t8 + fb::cast<double>(t10);  // slope, ordered.yaml:20
      if (active) x12[k] = {t11, fb::cast<double>(t1)};
      if (active) x14[k] = {t11, fb::cast<double>(t1)};
    }
    fb::scan_block<kThreads>(phase, a12, x12);
    fb::scan_block<kThreads>(phase, a14, x14);
    if (!active) continue;
    fb::Vec<__nv_bfloat16, kVec> o19;
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const double t15 = x14[k].v1;  // state, ordered.yaml:22
      const float t1 = v1[k];
      const double t16 = t15 * fb::cast<double>(s3);  // ordered.yaml:23
      const double t17 = t16 + fb::cast<double>(t1);  // y, ordered.yaml:23
      const __nv_bfloat16 t19 = fb::cast<__nv_bfloat16>(t17);  // ordered.yaml:31
      o19[k] = t19;
    }
    fb::store(r19 + col, o19);
  }

  if (fb::thread_x() != 0) return;
  const double t12 = a12.v0;  // end_slope, ordered.yaml:21
  const double t13 = a12.v1;  // end, ordered.yaml:21
  const double t18 = t13 + fb::cast<double>(t2);  // row_end, ordered.yaml:24
  const float t20 = fb::cast<float>(t18);  // ordered.yaml:32
  const float t21 = fb::cast<float>(t12);  // ordered.yaml:33
  T20[row] = t20;
  T21[row] = t21;
}

FUSEBUILD_ENTRY(scan_b93f95daa96148f0)
