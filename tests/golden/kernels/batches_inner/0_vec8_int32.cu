// batches_inner.yaml, segment 0: reduction, variant vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 14: 8, 21: 9, 25: 14, 26: 15, 30: 23, 34: 32}
// schedule: threads=128 unroll=8 is_split=True in_pieces=False can_cluster=True alone=8
// launch: segment 0, vec8_int32 1 of 2 on sm_90: grid ceil_div(M*max(1, 2*(N*(3*(M*N <= 2048*gpu.multiprocessors) + 1)
//   > 24), 4*(N*(3*(M*N <= 2048*gpu.multiprocessors) + 1) > 64), 8*(N*(3*(M*N <= 2048*gpu.multiprocessors) + 1) >
//   128*((M >= 16384) + 1)), 16*(N*(3*(M*N <= 2048*gpu.multiprocessors) + 1) > 512*((M >= 16384) + 1)), 32*(N*(3*(M*N
//   <= 2048*gpu.multiprocessors) + 1) > 1024*((M >= 16384) + 1)), 64*(N*(3*(M*N <= 2048*gpu.multiprocessors) + 1) >
//   2048), 128*(N*(3*(M*N <= 2048*gpu.multiprocessors) + 1) > 4096)), 128*max(1, argument 20)), argument 22, 1; block
//   128, 1, 1; clusters of 7*(M <= 64)*(N > 16384)*(N <= 131072)*(M*N <= 4194304) + 1; overlaps what is before; given
//   x, place, log_sum, largest, least, first, there, beside, slot 0 of max(4*max(1, min((N > 24576)*ceil_div(N, 8192),
//   max((8*gpu.multiprocessors) // max(1, M), 4*(M > 8*gpu.multiprocessors))))*M, 4*max(1, min((N > 3072)*ceil_div(N,
//   1024), max((8*gpu.multiprocessors) // max(1, M), 4*(M > 8*gpu.multiprocessors))))*M) bytes, slot 1 of max(4*max(1,
//   min((N > 24576)*ceil_div(N, 8192), max((8*gpu.multiprocessors) // max(1, M), 4*(M > 8*gpu.multiprocessors))))*M,
//   4*max(1, min((N > 3072)*ceil_div(N, 1024), max((8*gpu.multiprocessors) // max(1, M), 4*(M >
//   8*gpu.multiprocessors))))*M) bytes, slot 2 of max(4*max(1, min((N > 24576)*ceil_div(N, 8192),
//   max((8*gpu.multiprocessors) // max(1, M), 4*(M > 8*gpu.multiprocessors))))*M, 4*max(1, min((N > 3072)*ceil_div(N,
//   1024), max((8*gpu.multiprocessors) // max(1, M), 4*(M > 8*gpu.multiprocessors))))*M) bytes, slot 3 of max(8*max(1,
//   min((N > 24576)*ceil_div(N, 8192), max((8*gpu.multiprocessors) // max(1, M), 4*(M > 8*gpu.multiprocessors))))*M,
//   8*max(1, min((N > 3072)*ceil_div(N, 1024), max((8*gpu.multiprocessors) // max(1, M), 4*(M >
//   8*gpu.multiprocessors))))*M) bytes, slot 4 of max(4*max(1, min((N > 24576)*ceil_div(N, 8192),
//   max((8*gpu.multiprocessors) // max(1, M), 4*(M > 8*gpu.multiprocessors))))*M, 4*max(1, min((N > 3072)*ceil_div(N,
//   1024), max((8*gpu.multiprocessors) // max(1, M), 4*(M > 8*gpu.multiprocessors))))*M) bytes, slot 5 of max(8*max(1,
//   min((N > 24576)*ceil_div(N, 8192), max((8*gpu.multiprocessors) // max(1, M), 4*(M > 8*gpu.multiprocessors))))*M,
//   8*max(1, min((N > 3072)*ceil_div(N, 1024), max((8*gpu.multiprocessors) // max(1, M), 4*(M >
//   8*gpu.multiprocessors))))*M) bytes, slot 6 of max(4*max(1, min((N > 24576)*ceil_div(N, 8192),
//   max((8*gpu.multiprocessors) // max(1, M), 4*(M > 8*gpu.multiprocessors))))*M, 4*max(1, min((N > 3072)*ceil_div(N,
//   1024), max((8*gpu.multiprocessors) // max(1, M), 4*(M > 8*gpu.multiprocessors))))*M) bytes, slot 7 of max(4*max(1,
//   min((N > 24576)*ceil_div(N, 8192), max((8*gpu.multiprocessors) // max(1, M), 4*(M > 8*gpu.multiprocessors))))*M,
//   4*max(1, min((N > 3072)*ceil_div(N, 1024), max((8*gpu.multiprocessors) // max(1, M), 4*(M >
//   8*gpu.multiprocessors))))*M) bytes, M, N, (N*(3*(M*N <= 2048*gpu.multiprocessors) + 1) > 24) + (N*(3*(M*N <=
//   2048*gpu.multiprocessors) + 1) > 64) + (N*(3*(M*N <= 2048*gpu.multiprocessors) + 1) > 128*((M >= 16384) + 1)) +
//   (N*(3*(M*N <= 2048*gpu.multiprocessors) + 1) > 512*((M >= 16384) + 1)) + (N*(3*(M*N <= 2048*gpu.multiprocessors) +
//   1) > 1024*((M >= 16384) + 1)) + (N*(3*(M*N <= 2048*gpu.multiprocessors) + 1) > 2048) + (N*(3*(M*N <=
//   2048*gpu.multiprocessors) + 1) > 4096), (N == 8)*min(8, M // (1024*gpu.multiprocessors)), 7*(M <= 64)*(N >
//   16384)*(N <= 131072)*(M*N <= 4194304) + 1, 8*(M <= 64)*(N > 16384)*(N <= 131072)*(M*N <= 4194304) + max(1, min((N >
//   24576)*ceil_div(N, 8192), max((8*gpu.multiprocessors) // max(1, M), 4*(M > 8*gpu.multiprocessors))))*((M <= 64)*(N
//   > 16384)*(N <= 131072)*(M*N <= 4194304) == 0); if M*N < 2146435072, (N % 8) == 0, aligned(x, 16), N < 1073741824
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

struct earlier {
  struct State {
    float v0;  // least
    int64_t v1;  // first
  };
  static FUSEBUILD_DEVICE State combine(const State& a, const State& b) {
    const bool s4 = fb::isnan(a.v0);  // is_nan_a, batches_inner.yaml:15
    const bool s5 = fb::isnan(b.v0);  // is_nan_b, batches_inner.yaml:16
    const bool s6 = s5 && s4;  // batches_inner.yaml:17
    const bool s7 = b.v0 == a.v0;  // batches_inner.yaml:17
    const bool s8 = s6 || s7;  // is_same, batches_inner.yaml:17
    const bool s9 = !s5;  // batches_inner.yaml:18
    const bool s10 = s4 && s9;  // batches_inner.yaml:18
    const bool s11 = b.v0 > a.v0;  // batches_inner.yaml:18
    const bool s12 = s10 || s11;  // is_less, batches_inner.yaml:18
    const bool s13 = b.v1 > a.v1;  // batches_inner.yaml:19
    const bool s14 = s13 && s8;  // batches_inner.yaml:19
    const bool s15 = s12 || s14;  // takes_a, batches_inner.yaml:19
    const float s16 = fb::where(s15, a.v0, b.v0);  // least, batches_inner.yaml:20
    const int64_t s17 = fb::where(s15, a.v1, b.v1);  // first, batches_inner.yaml:21
    return {s16, s17};
  }
};

}  // namespace lambdas

constexpr int kThreads = 128;
constexpr int kVec = 8;  // neighbouring elements per access
constexpr int kUnroll = 8;  // accesses in flight per thread and tensor

FUSEBUILD_KERNEL(kThreads, 4)
reduction_inner_ae901fb9ec14091e(
    const __nv_bfloat16* T0,  // x: bfloat16[M, N]
    const int32_t* T1,  // place: int32[M]
    float* __restrict__ T14,  // log_sum: float[M]
    int64_t* __restrict__ T21,  // largest: int64[M]
    float* __restrict__ T25,  // least: float[M]
    int64_t* __restrict__ T26,  // first: int64[M]
    float* __restrict__ T30,  // there: float[M]
    float* __restrict__ T34,  // beside: float[M]
    float* __restrict__ P9,  // partial results of log_sum_max
    float* __restrict__ P10,  // partial results of log_sum_sum
    float* __restrict__ P20,  // partial results of largest_value
    int64_t* __restrict__ P21,  // partial results of largest
    float* __restrict__ P25,  // partial results of least
    int64_t* __restrict__ P26,  // partial results of first
    float* __restrict__ P30,  // partial results of there
    float* __restrict__ P34,  // partial results of beside
    int64_t n0,  // M
    int64_t n1,  // N
    int64_t row_shift,  // of the threads that share a row
    int64_t rows_alone,  // rows of one vector that a thread has to itself
    int64_t cluster,  // blocks that share a reduction and run together
    int64_t splits) {  // blocks that share a reduction
  fb::let_next_kernel_start();  // it waits for the end of this one
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const int64_t rows = n0;
  const Index columns = n1;
  if (rows_alone > 0) {  // a row is one vector: a thread has rows of its own
    constexpr int lane = 0, split = 0;
    constexpr Index col = 0;
    const int most = kThreads * rows_alone;
    const int64_t begin = int64_t(fb::block_x()) * most, top = begin + fb::thread_x();
    const int left = int(rows - begin < most ? rows - begin : most) - fb::thread_x();
    fb::Packed<__nv_bfloat16, kVec> p0[kUnroll];
    int32_t q1[kUnroll];
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      if (u * kThreads >= left) break;
      const int64_t row = top + u * kThreads;
      const __nv_bfloat16* r0 = T0 + row * n1;
      p0[u] = fb::load_packed<kVec>(r0 + col);
      q1[u] = T1[row];
    }
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      if (u * kThreads >= left) break;
      const int64_t row = top + u * kThreads;
      const int32_t t1 = q1[u];  // place
      const int32_t t31 = fb::add(t1, int32_t(1));  // batches_inner.yaml:30
      const __nv_bfloat16* r0 = T0 + row * n1;
      fb::ExpSum<float>::State a9 = {float(-INFINITY), 0.0f};
      float a30 = fb::Sum::identity<float>();
      float a34 = fb::Sum::identity<float>();
      fb::FirstBest<fb::Max, float, kVec, Index> w20;
      fb::FirstBest<fb::Min, float, kVec, Index> w25;
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(p0[u]);
      fb::Vec<float, kVec> e9;
      fb::Vec<float, kVec> e20;
      fb::Vec<float, kVec> e25;
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t0 = v0[k];
        const float t2 = fb::cast<float>(t0);  // batches_inner.yaml:24
        const float t4 = t2 * 0.5f;  // batches_inner.yaml:24
        const float t6 = t4 + 1.0f;  // y, batches_inner.yaml:24
        e9[k] = t6;
        e20[k] = t6;
        e25[k] = t6;
      }
      fb::add_exponentials(a9, e9);
      w20.add(e20, col);
      w25.add(e25, col);
      auto a20 = w20.state<lambdas::builtin_argmax_float::State>({float(-INFINITY), int64_t(9223372036854775807LL)});
      auto a25 = w25.state<lambdas::earlier::State>({float(INFINITY), int64_t(9223372036854775807LL)});
      const bool has30 = split == 0 && lane == 0 && fb::cast<int64_t>(t1) >= 0 && fb::cast<int64_t>(t1) < columns;
      const Index at30 = has30 ? fb::cast<int64_t>(t1) : 0;
      const __nv_bfloat16 q30_0 = has30 ? r0[at30] : fb::cast<__nv_bfloat16>(0.0f);
      const bool has34 = split == 0 && lane == 0 && fb::cast<int64_t>(t31) >= 0 && fb::cast<int64_t>(t31) < columns;
      const Index at34 = has34 ? fb::cast<int64_t>(t31) : 0;
      const __nv_bfloat16 q34_0 = has34 ? r0[at34] : fb::cast<__nv_bfloat16>(0.0f);
      if (has30) {
        const __nv_bfloat16 t0 = q30_0;  // x
        const float t2 = fb::cast<float>(t0);  // batches_inner.yaml:24
        const float t4 = t2 * 0.5f;  // batches_inner.yaml:24
        const float t6 = t4 + 1.0f;  // y, batches_inner.yaml:24
        a30 = fb::Sum::combine(a30, t6);
      }
      if (has34) {
        const __nv_bfloat16 t0 = q34_0;  // x
        const float t2 = fb::cast<float>(t0);  // batches_inner.yaml:24
        const float t4 = t2 * 0.5f;  // batches_inner.yaml:24
        const float t6 = t4 + 1.0f;  // y, batches_inner.yaml:24
        a34 = fb::Sum::combine(a34, t6);
      }
      const float t9 = a9.v0;  // log_sum_max, batches_inner.yaml:25
      const float t10 = a9.v1;  // log_sum_sum, batches_inner.yaml:25
      const int64_t t21 = a20.v1;  // largest, batches_inner.yaml:26
      const float t25 = a25.v0;  // least, batches_inner.yaml:27
      const int64_t t26 = a25.v1;  // first, batches_inner.yaml:27
      const float t30 = a30;  // there, batches_inner.yaml:29
      const float t34 = a34;  // beside, batches_inner.yaml:30
      const bool t11 = fb::isinf(t9);  // batches_inner.yaml:25
      const float t12 = fb::where(t11, 0.0f, t9);  // batches_inner.yaml:25
      const float t13 = fb::log(t10);  // batches_inner.yaml:25
      const float t14 = t13 + t12;  // log_sum, batches_inner.yaml:25
      T14[row] = t14;
      T21[row] = t21;
      T25[row] = t25;
      T26[row] = t26;
      T30[row] = t30;
      T34[row] = t34;
    }
    return;
  }
  const int width = 1 << row_shift;  // threads that share a row
  const int lane = fb::thread_x() & (width - 1);
  const int64_t wanted = int64_t(fb::block_x()) * (kThreads >> row_shift) + (fb::thread_x() >> row_shift);
  const bool active = wanted < rows;  // the last block's spare threads repeat a row and store nothing
  const int64_t row = active ? wanted : rows - 1;
  const int split = fb::block_y();  // of the blocks that take a row's vectors in turns
  const int32_t t1 = T1[row];  // place
  const int32_t t31 = fb::add(t1, int32_t(1));  // batches_inner.yaml:30
  const __nv_bfloat16* r0 = T0 + row * n1;

  fb::ExpSum<float>::State a9 = {float(-INFINITY), 0.0f};
  float a30 = fb::Sum::identity<float>();
  float a34 = fb::Sum::identity<float>();
  fb::FirstBest<fb::Max, float, kVec, Index> w20;
  fb::FirstBest<fb::Min, float, kVec, Index> w25;
  const Index step = width * kVec;
  for (Index first = (Index(split) * (kUnroll * width) + lane) * kVec; first < columns;
      first += Index(splits) * kUnroll * step) {
    fb::Packed<__nv_bfloat16, kVec> p0[kUnroll];
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index col = first + u * step;
      if (col >= columns) break;
      p0[u] = fb::load_packed<kVec>(r0 + col);
    }
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index col = first + u * step;
      if (col >= columns) break;
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(p0[u]);
      fb::Vec<float, kVec> e9;
      fb::Vec<float, kVec> e20;
      fb::Vec<float, kVec> e25;
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t0 = v0[k];
        const float t2 = fb::cast<float>(t0);  // batches_inner.yaml:24
        const float t4 = t2 * 0.5f;  // batches_inner.yaml:24
        const float t6 = t4 + 1.0f;  // y, batches_inner.yaml:24
        e9[k] = t6;
        e20[k] = t6;
        e25[k] = t6;
      }
      fb::add_exponentials(a9, e9);
      w20.add(e20, col);
      w25.add(e25, col);
    }
  }
  auto a20 = w20.state<lambdas::builtin_argmax_float::State>({float(-INFINITY), int64_t(9223372036854775807LL)});
  auto a25 = w25.state<lambdas::earlier::State>({float(INFINITY), int64_t(9223372036854775807LL)});
  const bool has30 = split == 0 && lane == 0 && fb::cast<int64_t>(t1) >= 0 && fb::cast<int64_t>(t1) < columns;
  const Index at30 = has30 ? fb::cast<int64_t>(t1) : 0;
  const __nv_bfloat16 q30_0 = has30 ? r0[at30] : fb::cast<__nv_bfloat16>(0.0f);
  const bool has34 = split == 0 && lane == 0 && fb::cast<int64_t>(t31) >= 0 && fb::cast<int64_t>(t31) < columns;
  const Index at34 = has34 ? fb::cast<int64_t>(t31) : 0;
  const __nv_bfloat16 q34_0 = has34 ? r0[at34] : fb::cast<__nv_bfloat16>(0.0f);
  if (has30) {
    const __nv_bfloat16 t0 = q30_0;  // x
    const float t2 = fb::cast<float>(t0);  // batches_inner.yaml:24
    const float t4 = t2 * 0.5f;  // batches_inner.yaml:24
    const float t6 = t4 + 1.0f;  // y, batches_inner.yaml:24
    a30 = fb::Sum::combine(a30, t6);
  }
  if (has34) {
    const __nv_bfloat16 t0 = q34_0;  // x
    const float t2 = fb::cast<float>(t0);  // batches_inner.yaml:24
    const float t4 = t2 * 0.5f;  // batches_inner.yaml:24
    const float t6 = t4 + 1.0f;  // y, batches_inner.yaml:24
    a34 = fb::Sum::combine(a34, t6);
  }
  fb::reduce_row_of<kThreads>(width, fb::accumulator<fb::ExpSum<float>>(a9),
      fb::accumulator<lambdas::builtin_argmax_float>(a20), fb::accumulator<lambdas::earlier>(a25),
      fb::accumulator<fb::Sum>(a30), fb::accumulator<fb::Sum>(a34));
  if (cluster == 1) {  // first: what most calls run through lies together
    if (splits > 1) {  // reduction_finish combines what they leave in order
      if (!active || lane != 0) return;
      P9[split * n0 + row] = a9.v0;
      P10[split * n0 + row] = a9.v1;
      P20[split * n0 + row] = a20.v0;
      P21[split * n0 + row] = a20.v1;
      P25[split * n0 + row] = a25.v0;
      P26[split * n0 + row] = a25.v1;
      P30[split * n0 + row] = a30;
      P34[split * n0 + row] = a34;
      return;
    }
    const float t9 = a9.v0;  // log_sum_max, batches_inner.yaml:25
    const float t10 = a9.v1;  // log_sum_sum, batches_inner.yaml:25
    const int64_t t21 = a20.v1;  // largest, batches_inner.yaml:26
    const float t25 = a25.v0;  // least, batches_inner.yaml:27
    const int64_t t26 = a25.v1;  // first, batches_inner.yaml:27
    const float t30 = a30;  // there, batches_inner.yaml:29
    const float t34 = a34;  // beside, batches_inner.yaml:30
    const bool t11 = fb::isinf(t9);  // batches_inner.yaml:25
    const float t12 = fb::where(t11, 0.0f, t9);  // batches_inner.yaml:25
    const float t13 = fb::log(t10);  // batches_inner.yaml:25
    const float t14 = t13 + t12;  // log_sum, batches_inner.yaml:25
    fb::store_rows_of<kThreads>(row_shift, rows, fb::row_result(T14, t14), fb::row_result(T21, t21),
        fb::row_result(T25, t25), fb::row_result(T26, t26), fb::row_result(T30, t30), fb::row_result(T34, t34));
    return;
  }
  if (
      !fb::reduce_in_first_block<kThreads, 1>(0, lane, 1, fb::accumulator<fb::ExpSum<float>>(a9),
      fb::accumulator<lambdas::builtin_argmax_float>(a20), fb::accumulator<lambdas::earlier>(a25),
      fb::accumulator<fb::Sum>(a30), fb::accumulator<fb::Sum>(a34))) return;
  const float t9 = a9.v0;  // log_sum_max, batches_inner.yaml:25
  const float t10 = a9.v1;  // log_sum_sum, batches_inner.yaml:25
  const int64_t t21 = a20.v1;  // largest, batches_inner.yaml:26
  const float t25 = a25.v0;  // least, batches_inner.yaml:27
  const int64_t t26 = a25.v1;  // first, batches_inner.yaml:27
  const float t30 = a30;  // there, batches_inner.yaml:29
  const float t34 = a34;  // beside, batches_inner.yaml:30
  const bool t11 = fb::isinf(t9);  // batches_inner.yaml:25
  const float t12 = fb::where(t11, 0.0f, t9);  // batches_inner.yaml:25
  const float t13 = fb::log(t10);  // batches_inner.yaml:25
  const float t14 = t13 + t12;  // log_sum, batches_inner.yaml:25
  fb::store_rows_of<kThreads>(row_shift, rows, fb::row_result(T14, t14), fb::row_result(T21, t21),
      fb::row_result(T25, t25), fb::row_result(T26, t26), fb::row_result(T30, t30), fb::row_result(T34, t34));
}

FUSEBUILD_ENTRY(reduction_inner_ae901fb9ec14091e)
