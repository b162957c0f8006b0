// ordered_ranks.yaml, segment 2: scan, variant scalar_int64
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 4: 8, 8: 43, 9: 44}
// schedule: threads=256
// launch: segment 2, scalar_int64 on sm_90: grid A*B, 1, 1; block 256, 1, 1; overlaps what is before; given x, s, t,
//   inner, ends_reduced, found_reduced, B, C, stride(s, 0), stride(s, 1), stride(t, 0), stride(t, 1), stride(t, 2)
#include <fusebuild/kernel.cuh>

using Index = int64_t;

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

constexpr int kThreads = 256;  // they walk one row, tile by tile
constexpr int kVec = 1;  // neighbouring elements per thread

FUSEBUILD_KERNEL(kThreads, 2)
scan_c00148035879782e(
    const float* T0,  // x: float[A, B, C]
    const float* T1,  // s: float[A?, B?, C]
    const float* T2,  // t: float[A, B, C] stride_order=[0, 1, 2]
    float* __restrict__ T4,  // inner: float[A, B, C]
    float* __restrict__ T8,  // ends_reduced: float[A, B]
    bool* __restrict__ T9,  // found_reduced: bool[A, B]
    int64_t n1,  // B
    int64_t n2,  // C
    int64_t T1_stride0,  // stride of dim 0, in elements
    int64_t T1_stride1,  // stride of dim 1, in elements
    int64_t T2_stride0,  // stride of dim 0, in elements
    int64_t T2_stride1,  // stride of dim 1, in elements
    int64_t T2_stride2) {  // stride of dim 2, in elements
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const Index columns = n2;
  const int64_t row = fb::block_x();
  const int64_t i1 = row % n1;
  const int64_t i0 = row / n1;
  const float* r0 = T0 + row * n2;
  const float* r1 = T1 + i0 * T1_stride0 + i1 * T1_stride1;
  const float* r2 = T2 + i0 * T2_stride0 + i1 * T2_stride1;
  float* r4 = T4 + row * n2;

  lambdas::builtin_cumsum_float::State a4 = {0.0f};
  lambdas::last::State a8 = {0.0f, false};
  fb::ReducePhase phase;
  for (Index tile = 0; tile < columns; tile += kThreads * kVec) {
    const Index wanted = tile + Index(fb::thread_x()) * kVec;
    const bool active = wanted < columns;  // spare threads repeat the first elements and combine nothing
    const Index col = active ? wanted : 0;
    const fb::Vec<float, kVec> v0 = fb::load<kVec>(r0 + col);
    const fb::Vec<float, kVec> v1 = fb::load<kVec>(r1 + col);
    auto x4 = fb::states<lambdas::builtin_cumsum_float, kVec>({0.0f});
    auto x8 = fb::states<lambdas::last, kVec>({0.0f, false});
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const float t0 = v0[k];
      const float t1 = v1[k];
      const float t2 = r2[col * T2_stride2];  // t
      const bool t5 = t1 > 0.0f;  // ordered_ranks.yaml:22
      const float t6 = fb::where(t5, t0, 0.0f);  // ordered_ranks.yaml:22
      if (active) x4[k] = {t2};
      if (active) x8[k] = {t6, t5};
    }
    fb::scan_block<kThreads>(phase, a4, x4);
    fb::scan_block<kThreads>(phase, a8, x8);
    if (!active) continue;
    fb::Vec<float, kVec> o4;
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const float t4 = x4[k].v0;  // inner, ordered_ranks.yaml:20
      o4[k] = t4;
    }
    fb::store(r4 + col, o4);
  }

  if (fb::thread_x() != 0) return;
  const float t8 = a8.v0;  // ends_reduced, ordered_ranks.yaml:22
  const bool t9 = a8.v1;  // found_reduced, ordered_ranks.yaml:22
  T8[row] = t8;
  T9[row] = t9;
}

FUSEBUILD_ENTRY(scan_c00148035879782e)
