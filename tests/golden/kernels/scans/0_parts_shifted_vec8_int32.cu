// scans.yaml, segment 0: scan, variant parts_shifted_vec8_int32
// segment fids to original fids: {0: 0, 1: 2, 2: 3, 3: 4, 16: 16, 19: 20, 20: 22}
// schedule: threads=256 step=Step.RESULTS
// launch: segment 0, parts_shifted_vec8_int32 3 of 3 on sm_90: grid M*ceil_div(N + 7, argument 13), 1, 1; block 256, 1,
//   1; overlaps what is before; given x, n, w, b, products, counts, rows, slot 0 of max(4*ceil_div(N, 2048*max(1,
//   ceil_div(ceil_div(N, 2048), max(1, (8*gpu.multiprocessors) // max(1, M)))))*M, 4*ceil_div(N + 7, 2048*max(1,
//   ceil_div(ceil_div(N + 7, 2048), max(1, (8*gpu.multiprocessors) // max(1, M)))))*M) bytes, slot 1 of
//   max(4*ceil_div(N, 2048*max(1, ceil_div(ceil_div(N, 2048), max(1, (8*gpu.multiprocessors) // max(1, M)))))*M,
//   4*ceil_div(N + 7, 2048*max(1, ceil_div(ceil_div(N + 7, 2048), max(1, (8*gpu.multiprocessors) // max(1, M)))))*M)
//   bytes, slot 2 of max(8*ceil_div(N, 2048*max(1, ceil_div(ceil_div(N, 2048), max(1, (8*gpu.multiprocessors) // max(1,
//   M)))))*M, 8*ceil_div(N + 7, 2048*max(1, ceil_div(ceil_div(N + 7, 2048), max(1, (8*gpu.multiprocessors) // max(1,
//   M)))))*M) bytes, M, N, 2048*max(1, ceil_div(ceil_div(N + 7, 2048), max(1, (8*gpu.multiprocessors) // max(1, M))));
//   if N < 2146435072, aligned(x, 16), aligned(n, 16), aligned(products, 16), aligned(counts, 16), aligned(rows, 16), M
//   < 132, N >= 8192
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

struct builtin_cumprod_float {
  struct State {
    float v0;  // value
  };
  static FUSEBUILD_DEVICE State combine(const State& a, const State& b) {
    const float s2 = a.v0 * b.v0;  // value
    return {s2};
  }
};

struct builtin_cumsum_int64 {
  struct State {
    int64_t v0;  // value
  };
  static FUSEBUILD_DEVICE State combine(const State& a, const State& b) {
    const int64_t s2 = fb::add(a.v0, b.v0);  // value
    return {s2};
  }
};

}  // namespace lambdas

constexpr int kThreads = 256;  // they walk one row, tile by tile
constexpr int kVec = 8;  // neighbouring elements per thread

FUSEBUILD_KERNEL(kThreads, 2)
scan_2f4fdeedbb6c2a4c(
    const float* T0,  // x: float[M, N]
    const int32_t* T1,  // n: int32[M, N]
    const float* T2,  // w: float[N]
    const float* T3,  // b: float[M]
    float* __restrict__ T16,  // products: float[M, N]
    int64_t* __restrict__ T19,  // counts: int64[M, N]
    __nv_bfloat16* __restrict__ T20,  // rows: bfloat16[M, N]
    const float* P9,  // partial results of t8
    const float* P16,  // partial results of products
    const int64_t* P19,  // partial results of counts
    int64_t n0,  // M
    int64_t n1,  // N
    int64_t length) {  // elements of a part
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const Index columns = n1;
  const int64_t rows = n0;
  const int64_t part = fb::block_x() / rows;
  const int64_t row = fb::block_x() % rows;
  const int64_t place = fb::block_x();  // in scratch
  const float t3 = T3[row];  // b
  const float* r0 = T0 + row * n1;
  const int32_t* r1 = T1 + row * n1;
  const float* r2 = T2;
  float* r16 = T16 + row * n1;
  int64_t* r19 = T19 + row * n1;
  __nv_bfloat16* r20 = T20 + row * n1;
  const Index shift = fb::shift_of<kVec>(row * columns);  // columns of earlier rows in its first vector
  const Index readable = fb::readable_of<kVec>(columns, (n0 - row) * columns);
  const int64_t top = part * length - shift;
  const int64_t end = top + length < columns ? top + length : columns;

  lambdas::builtin_cumsum_float::State a9 = {0.0f};
  lambdas::builtin_cumprod_float::State a16 = {1.0f};
  lambdas::builtin_cumsum_int64::State a19 = {int64_t(0)};
  if (part > 0) {
    const int64_t before = place - rows;  // what all parts before combine to
    a9 = {P9[before]};
    a16 = {P16[before]};
    a19 = {P19[before]};
  }
  fb::ReducePhase phase;
  fb::Packed<float, kVec> c0;
  fb::Packed<int32_t, kVec> c1;
  if (top < end) {
    const Index wanted = top + Index(fb::thread_x()) * kVec;
    const Index col = wanted < columns ? wanted : -shift;
    c0 = fb::load_packed_up_to<kVec>(r0 + col, readable - col);
    c1 = fb::load_packed_up_to<kVec>(r1 + col, readable - col);
  }
  for (Index tile = top; tile < end; tile += kThreads * kVec) {
    const Index wanted = tile + Index(fb::thread_x()) * kVec;
    const bool active = wanted < columns;  // spare threads repeat the first elements and combine nothing
    const Index col = active ? wanted : -shift;
    const unsigned inside = fb::inside_of<kVec>(col, columns);  // bit k: column col + k is of this row
    const fb::Vec<float, kVec> v0 = fb::unpack(c0);
    const fb::Vec<int32_t, kVec> v1 = fb::unpack(c1);
    const fb::Vec<float, kVec> v2 = fb::load_beside<kVec>(r2, col, columns);
    auto x9 = fb::states<lambdas::builtin_cumsum_float, kVec>({0.0f});
    auto x16 = fb::states<lambdas::builtin_cumprod_float, kVec>({1.0f});
    auto x19 = fb::states<lambdas::builtin_cumsum_int64, kVec>({int64_t(0)});
    if (tile + kThreads * kVec < end) {  // the next tile is on its way while this one is scanned
      const Index next = wanted + kThreads * kVec;
      const Index col = next < columns ? next : -shift;
      c0 = fb::load_packed_up_to<kVec>(r0 + col, readable - col);
      c1 = fb::load_packed_up_to<kVec>(r1 + col, readable - col);
    }
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const float t0 = v0[k];
      const int32_t t1 = v1[k];
      const float t2 = v2[k];
      const float t5 = t0 * t2;  // scans.yaml:10
      const float t7 = t5 + t3;  // scans.yaml:10
      const float t14 = t0 + 0.1f;  // scans.yaml:12
      const bool t18 = t1 > int32_t(0);  // scans.yaml:14
      if (active && fb::is_inside(inside, k)) x9[k] = {t7};
      if (active && fb::is_inside(inside, k)) x16[k] = {t14};
      if (active && fb::is_inside(inside, k)) x19[k] = {fb::cast<int64_t>(t18)};
    }
    fb::scan_block<kThreads>(phase, a9, x9);
    fb::scan_block<kThreads>(phase, a16, x16);
    fb::scan_block<kThreads>(phase, a19, x19);
    if (!active) continue;
    fb::Vec<float, kVec> o16;
    fb::Vec<int64_t, kVec> o19;
    fb::Vec<__nv_bfloat16, kVec> o20;
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const float t9 = x9[k].v0;  // scans.yaml:10
      const float t16 = x16[k].v0;  // products, scans.yaml:12
      const int64_t t19 = x19[k].v0;  // counts, scans.yaml:14
      const float t0 = v0[k];
      const float t11 = t9 * 2.0f;  // scans.yaml:10
      const float t12 = t11 - t0;  // rows, scans.yaml:10
      const __nv_bfloat16 t20 = fb::cast<__nv_bfloat16>(t12);  // scans.yaml:17
      o16[k] = t16;
      o19[k] = t19;
      o20[k] = t20;
    }
    fb::store_inside(r16 + col, o16, inside);
    fb::store_inside(r19 + col, o19, inside);
    fb::store_inside(r20 + col, o20, inside);
  }
}

FUSEBUILD_ENTRY(scan_2f4fdeedbb6c2a4c)
