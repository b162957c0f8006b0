// batches_outer.yaml, segment 0: reduction, variant vec2_int32
// segment fids to original fids: {0: 0, 1: 1, 5: 2, 6: 3, 12: 4, 19: 5, 23: 6, 26: 7}
// schedule: threads=256 unroll=4 is_split=True walked=[] always_split=False widest=12
// launch: segment 0, vec2_int32 1 of 2 on sm_90: grid ceil_div(ceil_div(N, 2), max(1, min(ceil_div(N, 2), 8)))*(M >
//   512)*(M*max(1, min(ceil_div(N, 2), 8)) <= 24576)*(M*N > 6144)*(M*N <= 4194304)*(ceil_div(ceil_div(N, 2), max(1,
//   min(ceil_div(N, 2), 8))) <= 64) + ceil_div(ceil_div(N, 2), min(256, max(max(1, min(32, 1024 // max(1, M))),
//   32*max(M > 1024, ceil_div(N, 2) > 4*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, M))), (M <= 384)*max(1,
//   min(32, 3072 // max(1, M))))), ceil_div(ceil_div(N, 2), 4*gpu.multiprocessors))))*((M > 512)*(M*max(1,
//   min(ceil_div(N, 2), 8)) <= 24576)*(M*N > 6144)*(M*N <= 4194304)*(ceil_div(ceil_div(N, 2), max(1, min(ceil_div(N,
//   2), 8))) <= 64) == 0), argument 23, 1; block 256, 1, 1; clusters of 7*(M > 512)*(M*max(1, min(ceil_div(N, 2), 8))
//   <= 24576)*(M*N > 6144)*(M*N <= 4194304)*(ceil_div(ceil_div(N, 2), max(1, min(ceil_div(N, 2), 8))) <= 64) + 1;
//   overlaps what is before; given x, d, top, total, log_sum, largest, smallest, mean, slot 0 of max(4*max(1,
//   ceil_div(M, 8192))*N, 4*max(1, min(max(M > 1024, ceil_div(N, 2) > 4*gpu.multiprocessors*max(max(1, min(32, 1024 //
//   max(1, M))), (M <= 384)*max(1, min(32, 3072 // max(1, M)))))*(M*N > 6144*max(1, ceil_div(ceil_div(N, 2),
//   32)))*ceil_div(M*N, 2048*max(1, ceil_div(ceil_div(N, 2), 32))), max((4*gpu.multiprocessors) // max(1,
//   ceil_div(ceil_div(N, 2), 32)), 4*(ceil_div(ceil_div(N, 2), 256) > 4*gpu.multiprocessors))))*N, 4*max(1, min(max(M >
//   8192, N > 4*gpu.multiprocessors*max(1, min(256, 4096 // max(1, M))))*(M*N > 12288*max(1, ceil_div(N,
//   256)))*ceil_div(M*N, 4096*max(1, ceil_div(N, 256))), max((4*gpu.multiprocessors) // max(1, ceil_div(N, 256)),
//   4*(ceil_div(N, 256) > 4*gpu.multiprocessors))))*N) bytes, slot 1 of max(4*max(1, ceil_div(M, 8192))*N, 4*max(1,
//   min(max(M > 1024, ceil_div(N, 2) > 4*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, M))), (M <= 384)*max(1,
//   min(32, 3072 // max(1, M)))))*(M*N > 6144*max(1, ceil_div(ceil_div(N, 2), 32)))*ceil_div(M*N, 2048*max(1,
//   ceil_div(ceil_div(N, 2), 32))), max((4*gpu.multiprocessors) // max(1, ceil_div(ceil_div(N, 2), 32)),
//   4*(ceil_div(ceil_div(N, 2), 256) > 4*gpu.multiprocessors))))*N, 4*max(1, min(max(M > 8192, N >
//   4*gpu.multiprocessors*max(1, min(256, 4096 // max(1, M))))*(M*N > 12288*max(1, ceil_div(N, 256)))*ceil_div(M*N,
//   4096*max(1, ceil_div(N, 256))), max((4*gpu.multiprocessors) // max(1, ceil_div(N, 256)), 4*(ceil_div(N, 256) >
//   4*gpu.multiprocessors))))*N) bytes, slot 2 of max(8*max(1, ceil_div(M, 8192))*N, 8*max(1, min(max(M > 1024,
//   ceil_div(N, 2) > 4*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, M))), (M <= 384)*max(1, min(32, 3072 //
//   max(1, M)))))*(M*N > 6144*max(1, ceil_div(ceil_div(N, 2), 32)))*ceil_div(M*N, 2048*max(1, ceil_div(ceil_div(N, 2),
//   32))), max((4*gpu.multiprocessors) // max(1, ceil_div(ceil_div(N, 2), 32)), 4*(ceil_div(ceil_div(N, 2), 256) >
//   4*gpu.multiprocessors))))*N, 8*max(1, min(max(M > 8192, N > 4*gpu.multiprocessors*max(1, min(256, 4096 // max(1,
//   M))))*(M*N > 12288*max(1, ceil_div(N, 256)))*ceil_div(M*N, 4096*max(1, ceil_div(N, 256))),
//   max((4*gpu.multiprocessors) // max(1, ceil_div(N, 256)), 4*(ceil_div(N, 256) > 4*gpu.multiprocessors))))*N) bytes,
//   slot 3 of max(8*max(1, ceil_div(M, 8192))*N, 8*max(1, min(max(M > 1024, ceil_div(N, 2) >
//   4*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, M))), (M <= 384)*max(1, min(32, 3072 // max(1, M)))))*(M*N
//   > 6144*max(1, ceil_div(ceil_div(N, 2), 32)))*ceil_div(M*N, 2048*max(1, ceil_div(ceil_div(N, 2), 32))),
//   max((4*gpu.multiprocessors) // max(1, ceil_div(ceil_div(N, 2), 32)), 4*(ceil_div(ceil_div(N, 2), 256) >
//   4*gpu.multiprocessors))))*N, 8*max(1, min(max(M > 8192, N > 4*gpu.multiprocessors*max(1, min(256, 4096 // max(1,
//   M))))*(M*N > 12288*max(1, ceil_div(N, 256)))*ceil_div(M*N, 4096*max(1, ceil_div(N, 256))),
//   max((4*gpu.multiprocessors) // max(1, ceil_div(N, 256)), 4*(ceil_div(N, 256) > 4*gpu.multiprocessors))))*N) bytes,
//   slot 4 of max(4*max(1, ceil_div(M, 8192))*N, 4*max(1, min(max(M > 1024, ceil_div(N, 2) >
//   4*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, M))), (M <= 384)*max(1, min(32, 3072 // max(1, M)))))*(M*N
//   > 6144*max(1, ceil_div(ceil_div(N, 2), 32)))*ceil_div(M*N, 2048*max(1, ceil_div(ceil_div(N, 2), 32))),
//   max((4*gpu.multiprocessors) // max(1, ceil_div(ceil_div(N, 2), 32)), 4*(ceil_div(ceil_div(N, 2), 256) >
//   4*gpu.multiprocessors))))*N, 4*max(1, min(max(M > 8192, N > 4*gpu.multiprocessors*max(1, min(256, 4096 // max(1,
//   M))))*(M*N > 12288*max(1, ceil_div(N, 256)))*ceil_div(M*N, 4096*max(1, ceil_div(N, 256))),
//   max((4*gpu.multiprocessors) // max(1, ceil_div(N, 256)), 4*(ceil_div(N, 256) > 4*gpu.multiprocessors))))*N) bytes,
//   slot 5 of max(8*max(1, ceil_div(M, 8192))*N, 8*max(1, min(max(M > 1024, ceil_div(N, 2) >
//   4*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, M))), (M <= 384)*max(1, min(32, 3072 // max(1, M)))))*(M*N
//   > 6144*max(1, ceil_div(ceil_div(N, 2), 32)))*ceil_div(M*N, 2048*max(1, ceil_div(ceil_div(N, 2), 32))),
//   max((4*gpu.multiprocessors) // max(1, ceil_div(ceil_div(N, 2), 32)), 4*(ceil_div(ceil_div(N, 2), 256) >
//   4*gpu.multiprocessors))))*N, 8*max(1, min(max(M > 8192, N > 4*gpu.multiprocessors*max(1, min(256, 4096 // max(1,
//   M))))*(M*N > 12288*max(1, ceil_div(N, 256)))*ceil_div(M*N, 4096*max(1, ceil_div(N, 256))),
//   max((4*gpu.multiprocessors) // max(1, ceil_div(N, 256)), 4*(ceil_div(N, 256) > 4*gpu.multiprocessors))))*N) bytes,
//   slot 6 of max(8*max(1, ceil_div(M, 8192))*N, 8*max(1, min(max(M > 1024, ceil_div(N, 2) >
//   4*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, M))), (M <= 384)*max(1, min(32, 3072 // max(1, M)))))*(M*N
//   > 6144*max(1, ceil_div(ceil_div(N, 2), 32)))*ceil_div(M*N, 2048*max(1, ceil_div(ceil_div(N, 2), 32))),
//   max((4*gpu.multiprocessors) // max(1, ceil_div(ceil_div(N, 2), 32)), 4*(ceil_div(ceil_div(N, 2), 256) >
//   4*gpu.multiprocessors))))*N, 8*max(1, min(max(M > 8192, N > 4*gpu.multiprocessors*max(1, min(256, 4096 // max(1,
//   M))))*(M*N > 12288*max(1, ceil_div(N, 256)))*ceil_div(M*N, 4096*max(1, ceil_div(N, 256))),
//   max((4*gpu.multiprocessors) // max(1, ceil_div(N, 256)), 4*(ceil_div(N, 256) > 4*gpu.multiprocessors))))*N) bytes,
//   slot 7 of max(8*max(1, ceil_div(M, 8192))*N, 8*max(1, min(max(M > 1024, ceil_div(N, 2) >
//   4*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, M))), (M <= 384)*max(1, min(32, 3072 // max(1, M)))))*(M*N
//   > 6144*max(1, ceil_div(ceil_div(N, 2), 32)))*ceil_div(M*N, 2048*max(1, ceil_div(ceil_div(N, 2), 32))),
//   max((4*gpu.multiprocessors) // max(1, ceil_div(ceil_div(N, 2), 32)), 4*(ceil_div(ceil_div(N, 2), 256) >
//   4*gpu.multiprocessors))))*N, 8*max(1, min(max(M > 8192, N > 4*gpu.multiprocessors*max(1, min(256, 4096 // max(1,
//   M))))*(M*N > 12288*max(1, ceil_div(N, 256)))*ceil_div(M*N, 4096*max(1, ceil_div(N, 256))),
//   max((4*gpu.multiprocessors) // max(1, ceil_div(N, 256)), 4*(ceil_div(N, 256) > 4*gpu.multiprocessors))))*N) bytes,
//   slot 8 of max(4*max(1, ceil_div(M, 8192))*N, 4*max(1, min(max(M > 1024, ceil_div(N, 2) >
//   4*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, M))), (M <= 384)*max(1, min(32, 3072 // max(1, M)))))*(M*N
//   > 6144*max(1, ceil_div(ceil_div(N, 2), 32)))*ceil_div(M*N, 2048*max(1, ceil_div(ceil_div(N, 2), 32))),
//   max((4*gpu.multiprocessors) // max(1, ceil_div(ceil_div(N, 2), 32)), 4*(ceil_div(ceil_div(N, 2), 256) >
//   4*gpu.multiprocessors))))*N, 4*max(1, min(max(M > 8192, N > 4*gpu.multiprocessors*max(1, min(256, 4096 // max(1,
//   M))))*(M*N > 12288*max(1, ceil_div(N, 256)))*ceil_div(M*N, 4096*max(1, ceil_div(N, 256))),
//   max((4*gpu.multiprocessors) // max(1, ceil_div(N, 256)), 4*(ceil_div(N, 256) > 4*gpu.multiprocessors))))*N) bytes,
//   M, M, N, max(1, min(ceil_div(N, 2), 8))*(M > 512)*(M*max(1, min(ceil_div(N, 2), 8)) <= 24576)*(M*N > 6144)*(M*N <=
//   4194304)*(ceil_div(ceil_div(N, 2), max(1, min(ceil_div(N, 2), 8))) <= 64) + ceil_div(ceil_div(N, 2), max(1,
//   ceil_div(ceil_div(N, 2), min(256, max(max(1, min(32, 1024 // max(1, M))), 32*max(M > 1024, ceil_div(N, 2) >
//   4*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, M))), (M <= 384)*max(1, min(32, 3072 // max(1, M))))),
//   ceil_div(ceil_div(N, 2), 4*gpu.multiprocessors))))))*((M > 512)*(M*max(1, min(ceil_div(N, 2), 8)) <= 24576)*(M*N >
//   6144)*(M*N <= 4194304)*(ceil_div(ceil_div(N, 2), max(1, min(ceil_div(N, 2), 8))) <= 64) == 0), 7*(M >
//   512)*(M*max(1, min(ceil_div(N, 2), 8)) <= 24576)*(M*N > 6144)*(M*N <= 4194304)*(ceil_div(ceil_div(N, 2), max(1,
//   min(ceil_div(N, 2), 8))) <= 64) + 1, 8*(M > 512)*(M*max(1, min(ceil_div(N, 2), 8)) <= 24576)*(M*N > 6144)*(M*N <=
//   4194304)*(ceil_div(ceil_div(N, 2), max(1, min(ceil_div(N, 2), 8))) <= 64) + max(1, min(max(M > 1024, ceil_div(N, 2)
//   > 4*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, M))), (M <= 384)*max(1, min(32, 3072 // max(1,
//   M)))))*(M*N > 6144*max(1, ceil_div(ceil_div(N, 2), 32)))*ceil_div(M*N, 2048*max(1, ceil_div(ceil_div(N, 2), 32))),
//   max((4*gpu.multiprocessors) // max(1, ceil_div(ceil_div(N, 2), 32)), 4*(ceil_div(ceil_div(N, 2), 256) >
//   4*gpu.multiprocessors))))*((M > 512)*(M*max(1, min(ceil_div(N, 2), 8)) <= 24576)*(M*N > 6144)*(M*N <=
//   4194304)*(ceil_div(ceil_div(N, 2), max(1, min(ceil_div(N, 2), 8))) <= 64) == 0); if M*N < 2146435072, (N % 2) == 0,
//   aligned(x, 4), aligned(d, 16), aligned(top, 8), aligned(total, 8), aligned(log_sum, 16), aligned(largest, 16),
//   aligned(smallest, 16), aligned(mean, 8), M < 1073741824
#include <fusebuild/kernel.cuh>

using Index = int32_t;

namespace lambdas {

struct builtin_argmax_float {
  struct State {
    float v0;  // value
    int64_t v1;  // index
  };
  static FUSEBUILD_DEVICE State combine(const State& a, const State& b) {
    const bool s4 = a.v0 > b.v0;
    const bool s5 = a.v0 == b.v0;
    const bool s6 = fb::isnan(a.v0);
    const bool s7 = fb::isnan(b.v0);
    const bool s8 = !s7;
    const bool s9 = s6 && s8;
    const bool s10 = s4 || s9;
    const bool s11 = s6 && s7;
    const bool s12 = s5 || s11;
    const bool s13 = a.v1 < b.v1;
    const bool s14 = s12 && s13;
    const bool s15 = s10 || s14;  // keep
    const float s16 = fb::where(s15, a.v0, b.v0);  // value
    const int64_t s17 = fb::where(s15, a.v1, b.v1);  // index
    return {s16, s17};
  }
};

struct builtin_argmin_double {
  struct State {
    double v0;  // value
    int64_t v1;  // index
  };
  static FUSEBUILD_DEVICE State combine(const State& a, const State& b) {
    const bool s4 = a.v0 < b.v0;
    const bool s5 = a.v0 == b.v0;
    const bool s6 = fb::isnan(a.v0);
    const bool s7 = fb::isnan(b.v0);
    const bool s8 = !s7;
    const bool s9 = s6 && s8;
    const bool s10 = s4 || s9;
    const bool s11 = s6 && s7;
    const bool s12 = s5 || s11;
    const bool s13 = a.v1 < b.v1;
    const bool s14 = s12 && s13;
    const bool s15 = s10 || s14;  // keep
    const double s16 = fb::where(s15, a.v0, b.v0);  // value
    const int64_t s17 = fb::where(s15, a.v1, b.v1);  // index
    return {s16, s17};
  }
};

}  // namespace lambdas

constexpr int kThreads = 256;
constexpr int kVec = 2;  // columns per thread
constexpr int kUnroll = 4;  // rows in flight per thread
constexpr int kTogether = 4;  // of them that are loaded or left out without a branch
constexpr int kWidest = 12;  // threads side by side where the blocks that share columns run together

FUSEBUILD_KERNEL(kThreads, 2)
reduction_outer_23f421fd20058062(
    const __nv_bfloat16* T0,  // x: bfloat16[M, N]
    const double* T1,  // d: double[M, N]
    float* __restrict__ T5,  // top: float[N]
    float* __restrict__ T6,  // total: float[N]
    double* __restrict__ T12,  // log_sum: double[N]
    int64_t* __restrict__ T19,  // largest: int64[N]
    int64_t* __restrict__ T23,  // smallest: int64[1, N]
    float* __restrict__ T26,  // mean: float[N]
    float* __restrict__ P5,  // partial results of top
    float* __restrict__ P6,  // partial results of total
    double* __restrict__ P7,  // partial results of log_sum_max
    double* __restrict__ P8,  // partial results of log_sum_sum
    float* __restrict__ P18,  // partial results of largest_value
    int64_t* __restrict__ P19,  // partial results of largest
    double* __restrict__ P21,  // partial results of smallest_value_reduced
    int64_t* __restrict__ P22,  // partial results of smallest_reduced
    float* __restrict__ P25,  // partial results of mean_sum
    int64_t s24,  // M
    int64_t n0,  // M
    int64_t n1,  // N
    int64_t block_width,  // threads side by side
    int64_t cluster,  // blocks that share a reduction and run together
    int64_t splits) {  // blocks that share a reduction
  fb::let_next_kernel_start();  // it waits for the end of this one
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const Index columns = n1;
  const Index depth = n0;
  const Index vectors = columns / kVec;
  const Index all = vectors;
  const int width = block_width;  // threads side by side
  const fb::Place place = fb::place_of<kThreads>(width);
  const int height = place.height;  // threads that share columns
  const int x = place.x, y = place.y;
  const Index vector = Index(fb::block_x()) * width + x;
  const Index inner = vector * kVec;
  const bool has_columns = vector < all && y < height;
  const int split = fb::block_y();  // of the blocks that take a column's rows in turns
  const Index end = has_columns ? depth : 0;
  const int apart = height;  // rows from one of a thread to its next
  const Index first = Index(split) * (kUnroll * height) + y;
  const Index step = Index(splits) * kUnroll * height;

  auto a5 = fb::states<fb::ExpSum<float>, kVec>({float(-INFINITY), 0.0f});
  auto a7 = fb::states<fb::ExpSum<double>, kVec>({double(-INFINITY), 0.0});
  fb::Vec<float, kVec> a25 = fb::splat<kVec>(fb::Sum::identity<float>());
  fb::FirstBest<fb::Max, float, 1, Index> w18[kVec];
  fb::FirstBest<fb::Min, double, 1, Index> w21[kVec];
  for (Index top = first; top < end; top += step) {
    const int left = end - top < kUnroll * height ? end - top : kUnroll * height;  // rows from its first one on
    fb::Packed<__nv_bfloat16, kVec> c0[kUnroll];
    fb::Packed<double, kVec> c1[kUnroll];
    const __nv_bfloat16* r0 = T0 + (top * n1 + inner);
    const int64_t stride0 = height * n1;
    const double* r1 = T1 + (top * n1 + inner);
    const int64_t stride1 = height * n1;
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const bool is_there = u * apart < left;
      if (u % kTogether == 0 && !is_there) break;
      if (is_there) c0[u] = fb::load_packed<kVec>(r0);
      if (is_there) c1[u] = fb::load_packed<kVec>(r1);
      r0 += stride0;
      r1 += stride1;
    }
    fb::Vec<fb::Vec<float, kUnroll>, kVec> e5 = fb::splat<kVec>(fb::splat<kUnroll>(float(-INFINITY)));
    fb::Vec<fb::Vec<double, kUnroll>, kVec> e7 = fb::splat<kVec>(fb::splat<kUnroll>(double(-INFINITY)));
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const bool is_there = u * apart < left;
      if (u % kTogether == 0 && !is_there) break;
      if (!is_there) continue;
      const Index r = top + u * height;
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(c0[u]);
      const fb::Vec<double, kVec> v1 = fb::unpack(c1[u]);
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t0 = v0[k];
        const double t1 = v1[k];
        a25[k] = fb::Sum::combine(a25[k], fb::cast<float>(t0));
        w18[k].add(fb::Vec<float, 1>{fb::cast<float>(t0)}, r);
        w21[k].add(fb::Vec<double, 1>{t1}, r);
        e5[k][u] = fb::cast<float>(t0);
        e7[k][u] = t1;
      }
    }
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      fb::add_exponentials(a5[k], e5[k]);
      fb::add_exponentials(a7[k], e7[k]);
    }
  }
  auto a18 = fb::states<lambdas::builtin_argmax_float>(w18, {float(-INFINITY), int64_t(9223372036854775807LL)});
  auto a21 = fb::states<lambdas::builtin_argmin_double>(w21, {double(INFINITY), int64_t(9223372036854775807LL)});
  fb::reduce_columns_of<kThreads>(x, y, width, height, fb::accumulator<fb::ExpSum<float>>(a5),
      fb::accumulator<fb::ExpSum<double>>(a7), fb::accumulator<lambdas::builtin_argmax_float>(a18),
      fb::accumulator<lambdas::builtin_argmin_double>(a21), fb::accumulator<fb::Sum>(a25));
  if (cluster == 1) {  // first: what most calls run through lies together
    if (y != 0 || !has_columns) return;
    if (splits > 1) {  // reduction_finish combines what they leave in order
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const int64_t place = int64_t(split) * all * kVec + vector * kVec + k;
        P5[place] = a5[k].v0;
        P6[place] = a5[k].v1;
        P7[place] = a7[k].v0;
        P8[place] = a7[k].v1;
        P18[place] = a18[k].v0;
        P19[place] = a18[k].v1;
        P21[place] = a21[k].v0;
        P22[place] = a21[k].v1;
        P25[place] = a25[k];
      }
      return;
    }
    fb::Vec<float, kVec> o5;
    fb::Vec<float, kVec> o6;
    fb::Vec<double, kVec> o12;
    fb::Vec<int64_t, kVec> o19;
    fb::Vec<int64_t, kVec> o23;
    fb::Vec<float, kVec> o26;
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const float t5 = a5[k].v0;  // top, batches_outer.yaml:7
      const float t6 = a5[k].v1;  // total, batches_outer.yaml:7
      const double t7 = a7[k].v0;  // log_sum_max, batches_outer.yaml:8
      const double t8 = a7[k].v1;  // log_sum_sum, batches_outer.yaml:8
      const int64_t t19 = a18[k].v1;  // largest, batches_outer.yaml:9
      const int64_t t22 = a21[k].v1;  // smallest_reduced, batches_outer.yaml:10
      const float t25 = a25[k];  // mean_sum, batches_outer.yaml:11
      const bool t9 = fb::isinf(t7);  // batches_outer.yaml:8
      const double t10 = fb::where(t9, 0.0, t7);  // batches_outer.yaml:8
      const double t11 = fb::log(t8);  // batches_outer.yaml:8
      const double t12 = t11 + t10;  // log_sum, batches_outer.yaml:8
      const float t26 = t25 / fb::cast<float>(s24);  // mean, batches_outer.yaml:11
      o5[k] = t5;
      o6[k] = t6;
      o12[k] = t12;
      o19[k] = t19;
      o23[k] = t22;
      o26[k] = t26;
    }
    fb::store(T5 + inner, o5);
    fb::store(T6 + inner, o6);
    fb::store(T12 + inner, o12);
    fb::store(T19 + inner, o19);
    fb::store(T23 + inner, o23);
    fb::store(T26 + inner, o26);
    return;
  }
  if (
      !fb::reduce_in_first_block<kThreads, kWidest>(x, y, width, fb::accumulator<fb::ExpSum<float>>(a5),
      fb::accumulator<fb::ExpSum<double>>(a7), fb::accumulator<lambdas::builtin_argmax_float>(a18),
      fb::accumulator<lambdas::builtin_argmin_double>(a21), fb::accumulator<fb::Sum>(a25))) return;
  if (y != 0 || !has_columns) return;
  fb::Vec<float, kVec> o5;
  fb::Vec<float, kVec> o6;
  fb::Vec<double, kVec> o12;
  fb::Vec<int64_t, kVec> o19;
  fb::Vec<int64_t, kVec> o23;
  fb::Vec<float, kVec> o26;
  FUSEBUILD_UNROLL
  for (int k = 0; k < kVec; ++k) {
    const float t5 = a5[k].v0;  // top, batches_outer.yaml:7
    const float t6 = a5[k].v1;  // total, batches_outer.yaml:7
    const double t7 = a7[k].v0;  // log_sum_max, batches_outer.yaml:8
    const double t8 = a7[k].v1;  // log_sum_sum, batches_outer.yaml:8
    const int64_t t19 = a18[k].v1;  // largest, batches_outer.yaml:9
    const int64_t t22 = a21[k].v1;  // smallest_reduced, batches_outer.yaml:10
    const float t25 = a25[k];  // mean_sum, batches_outer.yaml:11
    const bool t9 = fb::isinf(t7);  // batches_outer.yaml:8
    const double t10 = fb::where(t9, 0.0, t7);  // batches_outer.yaml:8
    const double t11 = fb::log(t8);  // batches_outer.yaml:8
    const double t12 = t11 + t10;  // log_sum, batches_outer.yaml:8
    const float t26 = t25 / fb::cast<float>(s24);  // mean, batches_outer.yaml:11
    o5[k] = t5;
    o6[k] = t6;
    o12[k] = t12;
    o19[k] = t19;
    o23[k] = t22;
    o26[k] = t26;
  }
  fb::store(T5 + inner, o5);
  fb::store(T6 + inner, o6);
  fb::store(T12 + inner, o12);
  fb::store(T19 + inner, o19);
  fb::store(T23 + inner, o23);
  fb::store(T26 + inner, o26);
}

FUSEBUILD_ENTRY(reduction_outer_23f421fd20058062)
