// walked_scans.yaml, segment 0: scan, variant vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 22: 18, 23: 19, 24: 23}
// schedule: threads=1024
// launch: segment 0, vec8_int32 on sm_90: grid M, 1, 1; block 1024, 1, 1; overlaps what is before; given x, h, weight,
//   nucleus, share, N; if M*N < 2146435072, (N % 8) == 0, aligned(x, 16), aligned(h, 16), aligned(nucleus, 16),
//   aligned(share, 16)
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

constexpr int kThreads = 1024;  // they walk one row, tile by tile
constexpr int kVec = 8;  // neighbouring elements per thread

FUSEBUILD_KERNEL(kThreads, 1)
scan_bbf0086f2de65300(
    const float* T0,  // x: float[M, N]
    const __nv_bfloat16* T1,  // h: bfloat16[M, N]
    float* __restrict__ T22,  // weight: float[M, 1]
    float* __restrict__ T23,  // nucleus: float[M, N]
    __nv_bfloat16* __restrict__ T24,  // share: bfloat16[M, N]
    int64_t n1) {  // N
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const Index columns = n1;
  const int64_t row = fb::block_x();
  const float* r0 = T0 + row * n1;
  const __nv_bfloat16* r1 = T1 + row * n1;
  float* r23 = T23 + row * n1;
  __nv_bfloat16* r24 = T24 + row * n1;

  fb::ReducePhase phase;
  float a6 = fb::Sum::identity<float>();
  float a9 = fb::Max::identity<float>();
  for (Index tile = 0; tile < columns; tile += kThreads * kVec) {
    const Index wanted = tile + Index(fb::thread_x()) * kVec;
    const bool active = wanted < columns;  // spare threads repeat the first elements and combine nothing
    const Index col = active ? wanted : 0;
    const fb::Vec<float, kVec> v0 = fb::load<kVec>(r0 + col);
    const fb::Vec<__nv_bfloat16, kVec> v1 = fb::load<kVec>(r1 + col);
    if (!active) continue;
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const float t0 = v0[k];
      const __nv_bfloat16 t1 = v1[k];
      const float t2 = fb::cast<float>(t1);  // walked_scans.yaml:7
      const float t3 = fb::exp(t2);  // e, walked_scans.yaml:7
      a6 = fb::Sum::combine(a6, t3);
      a9 = fb::Max::combine(a9, t0);
    }
  }
  fb::reduce_row<kThreads, 1>(phase, fb::accumulator<fb::Sum>(a6), fb::accumulator<fb::Max>(a9));
  const float t6 = a6;  // walked_scans.yaml:8
  const float t9 = a9;  // walked_scans.yaml:9

  float a13 = fb::Sum::identity<float>();
  for (Index tile = 0; tile < columns; tile += kThreads * kVec) {
    const Index wanted = tile + Index(fb::thread_x()) * kVec;
    const bool active = wanted < columns;  // spare threads repeat the first elements and combine nothing
    const Index col = active ? wanted : 0;
    const fb::Vec<float, kVec> v0 = fb::load<kVec>(r0 + col);
    if (!active) continue;
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const float t0 = v0[k];
      const float t11 = t0 - t9;  // walked_scans.yaml:9
      const float t12 = fb::exp_of_negative(t11);  // walked_scans.yaml:9
      a13 = fb::Sum::combine(a13, t12);
    }
  }
  fb::reduce_row<kThreads, 1>(phase, fb::accumulator<fb::Sum>(a13));
  const float t13 = a13;  // walked_scans.yaml:9

  lambdas::builtin_cumsum_float::State a16 = {0.0f};
  float a21 = fb::Sum::identity<float>();
  for (Index tile = 0; tile < columns; tile += kThreads * kVec) {
    const Index wanted = tile + Index(fb::thread_x()) * kVec;
    const bool active = wanted < columns;  // spare threads repeat the first elements and combine nothing
    const Index col = active ? wanted : 0;
    const fb::Vec<float, kVec> v0 = fb::load<kVec>(r0 + col);
    auto x16 = fb::states<lambdas::builtin_cumsum_float, kVec>({0.0f});
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const float t0 = v0[k];
      const float t11 = t0 - t9;  // walked_scans.yaml:9
      const float t12 = fb::exp_of_negative(t11);  // walked_scans.yaml:9
      const float t15 = t12 / t13;  // p, walked_scans.yaml:9
      if (active) x16[k] = {t15};
    }
    fb::scan_block<kThreads>(phase, a16, x16);
    if (!active) continue;
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const float t16 = x16[k].v0;  // walked_scans.yaml:10
      const float t0 = v0[k];
      const float t11 = t0 - t9;  // walked_scans.yaml:9
      const float t12 = fb::exp_of_negative(t11);  // walked_scans.yaml:9
      const float t15 = t12 / t13;  // p, walked_scans.yaml:9
      const float t17 = t16 - t15;  // before, walked_scans.yaml:10
      const bool t19 = t17 < 0.9f;  // walked_scans.yaml:11
      const float t20 = fb::where(t19, t15, 0.0f);  // kept, walked_scans.yaml:11
      a21 = fb::Sum::combine(a21, t20);
    }
  }
  fb::reduce_row<kThreads, 1>(phase, fb::accumulator<fb::Sum>(a21));
  const float t21 = a21;  // weight_sum, walked_scans.yaml:12

  lambdas::builtin_cumsum_float::State a5 = {0.0f};
  a16 = {0.0f};
  for (Index tile = 0; tile < columns; tile += kThreads * kVec) {
    const Index wanted = tile + Index(fb::thread_x()) * kVec;
    const bool active = wanted < columns;  // spare threads repeat the first elements and combine nothing
    const Index col = active ? wanted : 0;
    const fb::Vec<float, kVec> v0 = fb::load<kVec>(r0 + col);
    const fb::Vec<__nv_bfloat16, kVec> v1 = fb::load<kVec>(r1 + col);
    auto x5 = fb::states<lambdas::builtin_cumsum_float, kVec>({0.0f});
    auto x16 = fb::states<lambdas::builtin_cumsum_float, kVec>({0.0f});
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const float t0 = v0[k];
      const __nv_bfloat16 t1 = v1[k];
      const float t2 = fb::cast<float>(t1);  // walked_scans.yaml:7
      const float t3 = fb::exp(t2);  // e, walked_scans.yaml:7
      const float t11 = t0 - t9;  // walked_scans.yaml:9
      const float t12 = fb::exp_of_negative(t11);  // walked_scans.yaml:9
      const float t15 = t12 / t13;  // p, walked_scans.yaml:9
      if (active) x5[k] = {t3};
      if (active) x16[k] = {t15};
    }
    fb::scan_block<kThreads>(phase, a5, x5);
    fb::scan_block<kThreads>(phase, a16, x16);
    if (!active) continue;
    fb::Vec<float, kVec> o23;
    fb::Vec<__nv_bfloat16, kVec> o24;
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const float t5 = x5[k].v0;  // walked_scans.yaml:8
      const float t16 = x16[k].v0;  // walked_scans.yaml:10
      const float t0 = v0[k];
      const float t8 = t5 / t6;  // share, walked_scans.yaml:8
      const float t11 = t0 - t9;  // walked_scans.yaml:9
      const float t12 = fb::exp_of_negative(t11);  // walked_scans.yaml:9
      const float t15 = t12 / t13;  // p, walked_scans.yaml:9
      const float t17 = t16 - t15;  // before, walked_scans.yaml:10
      const bool t19 = t17 < 0.9f;  // walked_scans.yaml:11
      const float t20 = fb::where(t19, t15, 0.0f);  // kept, walked_scans.yaml:11
      const float t23 = t20 / t21;  // nucleus, walked_scans.yaml:13
      const __nv_bfloat16 t24 = fb::cast<__nv_bfloat16>(t8);  // walked_scans.yaml:18
      o23[k] = t23;
      o24[k] = t24;
    }
    fb::store(r23 + col, o23);
    fb::store(r24 + col, o24);
  }

  if (fb::thread_x() != 0) return;
  T22[row] = t21;
}

FUSEBUILD_ENTRY(scan_bbf0086f2de65300)
