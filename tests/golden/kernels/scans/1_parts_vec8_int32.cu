// scans.yaml, segment 1: scan, variant parts_vec8_int32
// segment fids to original fids: {0: 1, 1: 2, 2: 3, 6: 13, 8: 17, 10: 21}
// schedule: threads=64 step=Step.RESULTS
// launch: segment 1, parts_vec8_int32 3 of 3 on sm_90: grid ceil_div(ceil_div(N, 8)*ceil_div(M, argument 12), 64), 1,
//   1; block 64, 1, 1; overlaps what is before; given h, n, w, columns, down, sums, slot 3 of max(4*ceil_div(M,
//   16*max(1, ceil_div(ceil_div(M, 16), max(1, (256*gpu.multiprocessors) // max(1, ceil_div(N, 8))))))*N, 4*ceil_div(M,
//   16*max(1, ceil_div(ceil_div(M, 16), max(1, (256*gpu.multiprocessors) // max(1, N)))))*N) bytes, slot 4 of
//   max(4*ceil_div(M, 16*max(1, ceil_div(ceil_div(M, 16), max(1, (256*gpu.multiprocessors) // max(1, ceil_div(N,
//   8))))))*N, 4*ceil_div(M, 16*max(1, ceil_div(ceil_div(M, 16), max(1, (256*gpu.multiprocessors) // max(1, N)))))*N)
//   bytes, slot 5 of max(8*ceil_div(M, 16*max(1, ceil_div(ceil_div(M, 16), max(1, (256*gpu.multiprocessors) // max(1,
//   ceil_div(N, 8))))))*N, 8*ceil_div(M, 16*max(1, ceil_div(ceil_div(M, 16), max(1, (256*gpu.multiprocessors) // max(1,
//   N)))))*N) bytes, M, N, 16*max(1, ceil_div(ceil_div(M, 16), max(1, (256*gpu.multiprocessors) // max(1, ceil_div(N,
//   8))))); if M*N < 2146435072, (N % 8) == 0, aligned(h, 16), aligned(n, 16), aligned(w, 16), aligned(columns, 16),
//   aligned(down, 16), aligned(sums, 16), ceil_div(N, 8) < 4224, M >= 128
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

constexpr int kThreads = 64;
constexpr int kVec = 8;  // columns per thread
constexpr int kUnroll = 5;  // rows that it loads before it uses the first

FUSEBUILD_KERNEL(kThreads, 2)
scan_outer_fffdbbd397532cd4(
    const __nv_bfloat16* T0,  // h: bfloat16[M, N]
    const int32_t* T1,  // n: int32[M, N]
    const float* T2,  // w: float[N]
    float* __restrict__ T6,  // columns: float[M, N]
    float* __restrict__ T8,  // down: float[M, N]
    int64_t* __restrict__ T10,  // sums: int64[M, N]
    const float* P5,  // partial results of t12
    const float* P8,  // partial results of down
    const int64_t* P10,  // partial results of sums
    int64_t n0,  // M
    int64_t n1,  // N
    int64_t length) {  // elements of a part
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const int64_t columns = n1;
  const Index depth = n0;
  const int64_t vectors = (columns + kVec - 1) / kVec;  // of one outer index
  const int64_t all = vectors;
  const int64_t thread = int64_t(fb::block_x()) * kThreads + fb::thread_x();
  const int64_t part = thread / all;  // neighbours walk the same rows
  const int64_t vector = thread % all;
  const Index inner = vector * kVec;
  const int64_t top = part * length;
  if (top >= depth) return;
  const Index end = top + length < depth ? top + length : depth;
  const int64_t results = columns;
  const int64_t place = part * results + inner;  // of the first column in scratch

  auto a5 = fb::states<lambdas::builtin_cumsum_float, kVec>({0.0f});
  auto a8 = fb::states<lambdas::builtin_cumprod_float, kVec>({1.0f});
  auto a10 = fb::states<lambdas::builtin_cumsum_int64, kVec>({int64_t(0)});
  if (part > 0) {
    const int64_t before = place - results;  // what all parts before combine to
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      a5[k] = {P5[before + k]};
      a8[k] = {P8[before + k]};
      a10[k] = {P10[before + k]};
    }
  }
  for (Index first = top; first < end; first += kUnroll) {
    fb::Packed<__nv_bfloat16, kVec> c0[kUnroll];
    fb::Packed<int32_t, kVec> c1[kUnroll];
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index r = first + u;
      if (r >= end) break;
      c0[u] = fb::load_packed<kVec>(T0 + r * n1 + inner);
      c1[u] = fb::load_packed<kVec>(T1 + r * n1 + inner);
    }
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index r = first + u;
      if (r >= end) break;
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(c0[u]);
      const fb::Vec<int32_t, kVec> v1 = fb::unpack(c1[u]);
      const fb::Vec<float, kVec> v2 = fb::load<kVec>(T2 + inner);
      fb::Vec<float, kVec> o6;
      fb::Vec<float, kVec> o8;
      fb::Vec<int64_t, kVec> o10;
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t0 = v0[k];
        const int32_t t1 = v1[k];
        const float t2 = v2[k];
        a5[k] = lambdas::builtin_cumsum_float::combine(a5[k], {fb::cast<float>(t0)});
        a8[k] = lambdas::builtin_cumprod_float::combine(a8[k], {fb::cast<float>(t0)});
        a10[k] = lambdas::builtin_cumsum_int64::combine(a10[k], {fb::cast<int64_t>(t1)});
        const float t5 = a5[k].v0;  // scans.yaml:11
        const float t8 = a8[k].v0;  // down, scans.yaml:13
        const int64_t t10 = a10[k].v0;  // sums, scans.yaml:15
        const float t6 = t5 + t2;  // columns, scans.yaml:11
        o6[k] = t6;
        o8[k] = t8;
        o10[k] = t10;
      }
      fb::store(T6 + r * n1 + inner, o6);
      fb::store(T8 + r * n1 + inner, o8);
      fb::store(T10 + r * n1 + inner, o10);
    }
  }
}

FUSEBUILD_ENTRY(scan_outer_fffdbbd397532cd4)
