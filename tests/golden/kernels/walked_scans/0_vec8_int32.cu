// walked_scans.yaml, segment 0: scan, variant vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 11: 8, 12: 9, 13: 13}
// schedule: threads=256
// launch: segment 0, vec8_int32 on sm_90: grid M, 1, 1; block 256, 1, 1; overlaps what is before; given x, h, most,
//   below, share, N; if M*N < 2146435072, (N % 8) == 0, aligned(x, 16), aligned(h, 16), aligned(below, 16),
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

constexpr int kThreads = 256;  // they walk one row, tile by tile
constexpr int kVec = 8;  // neighbouring elements per thread

FUSEBUILD_KERNEL(kThreads, 2)
scan_20f0e6f474de46fe(
    const float* T0,  // x: float[M, N]
    const __nv_bfloat16* T1,  // h: bfloat16[M, N]
    float* __restrict__ T11,  // most: float[M, 1]
    float* __restrict__ T12,  // below: float[M, N]
    __nv_bfloat16* __restrict__ T13,  // share: bfloat16[M, N]
    int64_t n1) {  // N
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const Index columns = n1;
  const int64_t row = fb::block_x();
  const float* r0 = T0 + row * n1;
  const __nv_bfloat16* r1 = T1 + row * n1;
  float* r12 = T12 + row * n1;
  __nv_bfloat16* r13 = T13 + row * n1;

  lambdas::builtin_cumsum_float::State a9 = {0.0f};
  fb::ReducePhase phase;
  float a6 = fb::Sum::identity<float>();
  float a10 = fb::Max::identity<float>();
  for (Index tile = 0; tile < columns; tile += kThreads * kVec) {
    const Index wanted = tile + Index(fb::thread_x()) * kVec;
    const bool active = wanted < columns;  // spare threads repeat the first elements and combine nothing
    const Index col = active ? wanted : 0;
    const fb::Vec<float, kVec> v0 = fb::load<kVec>(r0 + col);
    const fb::Vec<__nv_bfloat16, kVec> v1 = fb::load<kVec>(r1 + col);
    auto x9 = fb::states<lambdas::builtin_cumsum_float, kVec>({0.0f});
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const float t0 = v0[k];
      if (active) x9[k] = {t0};
    }
    fb::scan_block<kThreads>(phase, a9, x9);
    if (!active) continue;
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const float t9 = x9[k].v0;  // walked_scans.yaml:11
      const __nv_bfloat16 t1 = v1[k];
      const float t2 = fb::cast<float>(t1);  // walked_scans.yaml:9
      const float t3 = fb::exp(t2);  // e, walked_scans.yaml:9
      a6 = fb::Sum::combine(a6, t3);
      a10 = fb::Max::combine(a10, t9);
    }
  }
  fb::reduce_row<kThreads, 1>(phase, fb::accumulator<fb::Sum>(a6), fb::accumulator<fb::Max>(a10));
  const float t6 = a6;  // walked_scans.yaml:10
  const float t10 = a10;  // most_max, walked_scans.yaml:11

  lambdas::builtin_cumsum_float::State a5 = {0.0f};
  for (Index tile = 0; tile < columns; tile += kThreads * kVec) {
    const Index wanted = tile + Index(fb::thread_x()) * kVec;
    const bool active = wanted < columns;  // spare threads repeat the first elements and combine nothing
    const Index col = active ? wanted : 0;
    const fb::Vec<__nv_bfloat16, kVec> v1 = fb::load<kVec>(r1 + col);
    const fb::Vec<float, kVec> v0 = fb::load<kVec>(r0 + col);
    auto x5 = fb::states<lambdas::builtin_cumsum_float, kVec>({0.0f});
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const __nv_bfloat16 t1 = v1[k];
      const float t2 = fb::cast<float>(t1);  // walked_scans.yaml:9
      const float t3 = fb::exp(t2);  // e, walked_scans.yaml:9
      if (active) x5[k] = {t3};
    }
    fb::scan_block<kThreads>(phase, a5, x5);
    if (!active) continue;
    fb::Vec<float, kVec> o12;
    fb::Vec<__nv_bfloat16, kVec> o13;
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const float t5 = x5[k].v0;  // walked_scans.yaml:10
      const float t0 = v0[k];
      const float t8 = t5 / t6;  // share, walked_scans.yaml:10
      const float t12 = t0 - t10;  // below, walked_scans.yaml:12
      const __nv_bfloat16 t13 = fb::cast<__nv_bfloat16>(t8);  // walked_scans.yaml:17
      o12[k] = t12;
      o13[k] = t13;
    }
    fb::store(r12 + col, o12);
    fb::store(r13 + col, o13);
  }

  if (fb::thread_x() != 0) return;
  T11[row] = t10;
}

FUSEBUILD_ENTRY(scan_20f0e6f474de46fe)
