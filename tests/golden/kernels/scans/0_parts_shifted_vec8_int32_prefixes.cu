// scans.yaml, segment 0: scan, variant parts_vec8_int32
// segment fids to original fids: {0: 0, 1: 2, 2: 3, 3: 4, 16: 16, 19: 20, 20: 22}
// schedule: threads=256 step=Step.PREFIXES
// launch: segment 0, parts_vec8_int32 2 of 3 on sm_90: grid M, 1, 1; block 256, 1, 1; overlaps what is before; given
//   slot 0 of max(4*ceil_div(N, 2048*max(1, ceil_div(ceil_div(N, 2048), max(1, (8*gpu.multiprocessors) // max(1,
//   M)))))*M, 4*ceil_div(N + 7, 2048*max(1, ceil_div(ceil_div(N + 7, 2048), max(1, (8*gpu.multiprocessors) // max(1,
//   M)))))*M) bytes, slot 1 of max(4*ceil_div(N, 2048*max(1, ceil_div(ceil_div(N, 2048), max(1, (8*gpu.multiprocessors)
//   // max(1, M)))))*M, 4*ceil_div(N + 7, 2048*max(1, ceil_div(ceil_div(N + 7, 2048), max(1, (8*gpu.multiprocessors) //
//   max(1, M)))))*M) bytes, slot 2 of max(8*ceil_div(N, 2048*max(1, ceil_div(ceil_div(N, 2048), max(1,
//   (8*gpu.multiprocessors) // max(1, M)))))*M, 8*ceil_div(N + 7, 2048*max(1, ceil_div(ceil_div(N + 7, 2048), max(1,
//   (8*gpu.multiprocessors) // max(1, M)))))*M) bytes, ceil_div(N, 2048*max(1, ceil_div(ceil_div(N, 2048), max(1,
//   (8*gpu.multiprocessors) // max(1, M))))), M; if M*N < 2146435072, (N % 8) == 0, aligned(x, 16), aligned(n, 16),
//   aligned(w, 16), aligned(products, 16), aligned(counts, 16), aligned(rows, 16), M < 132, N >= 8192
// launch: segment 0, parts_shifted_vec8_int32 2 of 3 on sm_90: grid M, 1, 1; block 256, 1, 1; overlaps what is before;
//   given slot 0 of max(4*ceil_div(N, 2048*max(1, ceil_div(ceil_div(N, 2048), max(1, (8*gpu.multiprocessors) // max(1,
//   M)))))*M, 4*ceil_div(N + 7, 2048*max(1, ceil_div(ceil_div(N + 7, 2048), max(1, (8*gpu.multiprocessors) // max(1,
//   M)))))*M) bytes, slot 1 of max(4*ceil_div(N, 2048*max(1, ceil_div(ceil_div(N, 2048), max(1, (8*gpu.multiprocessors)
//   // max(1, M)))))*M, 4*ceil_div(N + 7, 2048*max(1, ceil_div(ceil_div(N + 7, 2048), max(1, (8*gpu.multiprocessors) //
//   max(1, M)))))*M) bytes, slot 2 of max(8*ceil_div(N, 2048*max(1, ceil_div(ceil_div(N, 2048), max(1,
//   (8*gpu.multiprocessors) // max(1, M)))))*M, 8*ceil_div(N + 7, 2048*max(1, ceil_div(ceil_div(N + 7, 2048), max(1,
//   (8*gpu.multiprocessors) // max(1, M)))))*M) bytes, ceil_div(N + 7, 2048*max(1, ceil_div(ceil_div(N + 7, 2048),
//   max(1, (8*gpu.multiprocessors) // max(1, M))))), M; if N < 2146435072, aligned(x, 16), aligned(n, 16),
//   aligned(products, 16), aligned(counts, 16), aligned(rows, 16), M < 132, N >= 8192
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

constexpr int kThreads = 256;  // they scan what the parts of one row or column combine to
constexpr int kVec = 8;  // neighbouring parts per thread

FUSEBUILD_KERNEL(kThreads, 2)
scan_prefixes_39e5334426dd65f6(
    float* __restrict__ P9,  // partial results of t8
    float* __restrict__ P16,  // partial results of products
    int64_t* __restrict__ P19,  // partial results of counts
    int64_t parts,  // of each
    int64_t results) {  // rows or columns
  fb::let_next_kernel_start();  // it waits for the end of this one
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const int64_t result = fb::block_x();

  lambdas::builtin_cumsum_float::State a9 = {0.0f};
  lambdas::builtin_cumprod_float::State a16 = {1.0f};
  lambdas::builtin_cumsum_int64::State a19 = {int64_t(0)};
  fb::ReducePhase phase;
  for (int64_t first = 0; first < parts; first += kThreads * kVec) {
    auto x9 = fb::states<lambdas::builtin_cumsum_float, kVec>({0.0f});
    auto x16 = fb::states<lambdas::builtin_cumprod_float, kVec>({1.0f});
    auto x19 = fb::states<lambdas::builtin_cumsum_int64, kVec>({int64_t(0)});
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const int64_t part = first + fb::thread_x() * kVec + k, place = part * results + result;
      if (part >= parts) break;
      x9[k] = {P9[place]};
      x16[k] = {P16[place]};
      x19[k] = {P19[place]};
    }
    fb::scan_block<kThreads>(phase, a9, x9);
    fb::scan_block<kThreads>(phase, a16, x16);
    fb::scan_block<kThreads>(phase, a19, x19);
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const int64_t part = first + fb::thread_x() * kVec + k, place = part * results + result;
      if (part >= parts) break;
      P9[place] = x9[k].v0;
      P16[place] = x16[k].v0;
      P19[place] = x19[k].v0;
    }
  }
}

FUSEBUILD_ENTRY(scan_prefixes_39e5334426dd65f6)
