// ordered_ranks.yaml, segment 1: scan, variant vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 4: 7, 9: 17, 10: 18}
// schedule: threads=64
// launch: segment 1, vec8_int32 on sm_90: grid ceil_div(ceil_div(C, 8)*A, 64), 1, 1; block 64, 1, 1; overlaps what is
//   before; given x, s, middle, latest, seen, A, B, C, stride(s, 0), stride(s, 1); if A*B*C < 2146435072, (C % 8) == 0,
//   aligned(x, 16), aligned(s, 16), aligned(middle, 16), aligned(latest, 16), aligned(seen, 8)
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

struct last {
  struct State {
    float v0;  // value
    bool v1;  // found
  };
  static FUSEBUILD_DEVICE State combine(const State& a, const State& b) {
    const float s4 = fb::where(b.v1, b.v0, a.v0);  // value, ordered_ranks.yaml:13
    const bool s5 = a.v1 || b.v1;  // found, ordered_ranks.yaml:14
    return {s4, s5};
  }
};

}  // namespace lambdas

constexpr int kThreads = 64;
constexpr int kVec = 8;  // columns per thread

FUSEBUILD_KERNEL(kThreads, 2)
scan_outer_2ac36e2e889f83a7(
    const float* T0,  // x: float[A, B, C]
    const float* T1,  // s: float[A?, B?, C]
    float* __restrict__ T4,  // middle: float[A, B, C]
    float* __restrict__ T9,  // latest: float[A, B, C]
    bool* __restrict__ T10,  // seen: bool[A, B, C]
    int64_t n0,  // A
    int64_t n1,  // B
    int64_t n2,  // C
    int64_t T1_stride0,  // stride of dim 0, in elements
    int64_t T1_stride1) {  // stride of dim 1, in elements
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const int64_t columns = n2;
  const Index depth = n1;
  const int64_t vectors = (columns + kVec - 1) / kVec;  // of one outer index
  const int64_t vector = int64_t(fb::block_x()) * kThreads + fb::thread_x();
  const Index outer = vector / vectors;
  const Index inner = vector % vectors * kVec;
  if (outer >= n0) return;

  auto a3 = fb::states<lambdas::builtin_cumsum_float, kVec>({0.0f});
  auto a9 = fb::states<lambdas::last, kVec>({0.0f, false});
  FUSEBUILD_UNROLL_BY(4)
  for (Index r = 0; r < depth; ++r) {
    const fb::Vec<float, kVec> v0 = fb::load<kVec>(T0 + (outer * n1 + r) * n2 + inner);
    const fb::Vec<float, kVec> v1 = fb::load<kVec>(T1 + outer * T1_stride0 + r * T1_stride1 + inner);
    fb::Vec<float, kVec> o4;
    fb::Vec<float, kVec> o9;
    fb::Vec<bool, kVec> o10;
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const float t0 = v0[k];
      const float t1 = v1[k];
      const bool t6 = t0 > 0.5f;  // ordered_ranks.yaml:21
      const float t7 = fb::where(t6, t0, 0.0f);  // ordered_ranks.yaml:21
      a3[k] = lambdas::builtin_cumsum_float::combine(a3[k], {t0});
      a9[k] = lambdas::last::combine(a9[k], {t7, t6});
      const float t3 = a3[k].v0;  // ordered_ranks.yaml:19
      const float t9 = a9[k].v0;  // latest, ordered_ranks.yaml:21
      const bool t10 = a9[k].v1;  // seen, ordered_ranks.yaml:21
      const float t4 = t3 * t1;  // middle, ordered_ranks.yaml:19
      o4[k] = t4;
      o9[k] = t9;
      o10[k] = t10;
    }
    fb::store(T4 + (outer * n1 + r) * n2 + inner, o4);
    fb::store(T9 + (outer * n1 + r) * n2 + inner, o9);
    fb::store(T10 + (outer * n1 + r) * n2 + inner, o10);
  }
}

FUSEBUILD_ENTRY(scan_outer_2ac36e2e889f83a7)
