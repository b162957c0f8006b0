// walked_scans.yaml, segment 1: scan, variant vec4_int32
// segment fids to original fids: {0: 0, 2: 10, 3: 11, 6: 12}
// schedule: threads=64
// launch: segment 1, vec4_int32 on sm_90: grid ceil_div(ceil_div(N, 4), 64), 1, 1; block 64, 1, 1; overlaps what is
//   before; given x, running, highest, mean, M, M, N; if M*N < 2146435072, (N % 4) == 0, aligned(x, 16),
//   aligned(running, 16), aligned(highest, 16), aligned(mean, 16)
#include <fusebuild/kernel.cuh>

using Index = int32_t;

namespace lambdas {

struct builtin_cumsum_float {
  struct State {
    float v0;  // value
  };
  static FUSEBUILD_DEVICE State combine(const State& a, const State& b) {
    const float s2 = a.v0 + b.v0;  // value
    return {s2};
  }
};

}  // namespace lambdas

constexpr int kThreads = 64;
constexpr int kVec = 4;  // columns per thread

FUSEBUILD_KERNEL(kThreads, 2)
scan_outer_5a50787dd1afd0bf(
    const float* T0,  // x: float[M, N]
    float* __restrict__ T2,  // running: float[M, N]
    float* __restrict__ T3,  // highest: float[N]
    float* __restrict__ T6,  // mean: float[N]
    int64_t s4,  // M
    int64_t n0,  // M
    int64_t n1) {  // N
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const int64_t columns = n1;
  const Index depth = n0;
  const Index inner = (Index(fb::block_x()) * kThreads + fb::thread_x()) * kVec;
  if (inner >= columns) return;

  auto a2 = fb::states<lambdas::builtin_cumsum_float, kVec>({0.0f});
  fb::Vec<float, kVec> a3 = fb::splat<kVec>(fb::Max::identity<float>());
  fb::Vec<float, kVec> a5 = fb::splat<kVec>(fb::Sum::identity<float>());
  FUSEBUILD_UNROLL_BY(4)
  for (Index r = 0; r < depth; ++r) {
    const fb::Vec<float, kVec> v0 = fb::load<kVec>(T0 + r * n1 + inner);
    fb::Vec<float, kVec> o2;
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const float t0 = v0[k];
      a2[k] = lambdas::builtin_cumsum_float::combine(a2[k], {t0});
      const float t2 = a2[k].v0;  // running, walked_scans.yaml:13
      a3[k] = fb::Max::combine(a3[k], t2);
      a5[k] = fb::Sum::combine(a5[k], t0);
      o2[k] = t2;
    }
    fb::store(T2 + r * n1 + inner, o2);
  }
  FUSEBUILD_UNROLL
  for (int k = 0; k < kVec; ++k) {
    const float t3 = a3[k];  // highest, walked_scans.yaml:14
    const float t5 = a5[k];  // mean_sum, walked_scans.yaml:15
    const float t6 = t5 / fb::cast<float>(s4);  // mean, walked_scans.yaml:15
    T3[inner + k] = t3;
    T6[inner + k] = t6;
  }
}

FUSEBUILD_ENTRY(scan_outer_5a50787dd1afd0bf)
