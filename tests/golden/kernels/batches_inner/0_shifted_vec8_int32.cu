// batches_inner.yaml, segment 0: reduction, variant shifted_vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 14: 8, 21: 9, 25: 14, 26: 15, 30: 23, 34: 32}
// schedule: threads.per_row=64 threads.rows=1 splits=1
// launch: segment 0, shifted_vec8_int32 on sm_90: grid M, 1, 1; block 64, 1, 1; given x, place, log_sum, largest,
//   least, first, there, beside, M, N; if N < 2146435072, aligned(x, 16)
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

constexpr int kThreadsPerRow = 64;
constexpr int kRowsPerBlock = 1;
constexpr int kVec = 8;  // neighbouring elements per access
constexpr int kUnroll = 4;  // accesses in flight per thread and tensor

FUSEBUILD_KERNEL(kThreadsPerRow * kRowsPerBlock, 2)
reduction_inner_ace9501948b8011b(
    const __nv_bfloat16* __restrict__ T0,  // x: bfloat16[M, N]
    const int32_t* __restrict__ T1,  // place: int32[M]
    float* __restrict__ T14,  // log_sum: float[M]
    int64_t* __restrict__ T21,  // largest: int64[M]
    float* __restrict__ T25,  // least: float[M]
    int64_t* __restrict__ T26,  // first: int64[M]
    float* __restrict__ T30,  // there: float[M]
    float* __restrict__ T34,  // beside: float[M]
    int64_t n0,  // M
    int64_t n1) {  // N
  const Index columns = n1;
  const int lane = fb::thread_x() % kThreadsPerRow;
  const int64_t row = fb::block_x();
  const int32_t t1 = T1[row];  // place
  const int32_t t31 = fb::add(t1, int32_t(1));  // batches_inner.yaml:30
  const __nv_bfloat16* r0 = T0 + row * n1;
  const Index shift = fb::shift_of<kVec>(row * columns);  // columns of earlier rows in its first vector
  const Index readable = fb::readable_of<kVec>(columns, (n0 - row) * columns);

  fb::ExpSum<float>::State a9 = {float(-INFINITY), 0.0f};
  float a30 = fb::Sum::identity<float>();
  float a34 = fb::Sum::identity<float>();
  fb::FirstBest<fb::Max, float, kVec, Index> w20;
  fb::FirstBest<fb::Min, float, kVec, Index> w25;
  const bool has30 = lane == 0 && fb::cast<int64_t>(t1) >= 0 && fb::cast<int64_t>(t1) < columns;
  const Index at30 = has30 ? fb::cast<int64_t>(t1) : 0;
  const __nv_bfloat16 q30_0 = has30 ? r0[at30] : fb::cast<__nv_bfloat16>(0.0f);
  const bool has34 = lane == 0 && fb::cast<int64_t>(t31) >= 0 && fb::cast<int64_t>(t31) < columns;
  const Index at34 = has34 ? fb::cast<int64_t>(t31) : 0;
  const __nv_bfloat16 q34_0 = has34 ? r0[at34] : fb::cast<__nv_bfloat16>(0.0f);
  for (Index first = Index(lane) * kVec - shift; first < columns; first += kUnroll * kThreadsPerRow * kVec) {
    fb::Packed<__nv_bfloat16, kVec> p0[kUnroll];
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index col = first + Index(u) * (kThreadsPerRow * kVec);
      if (col >= columns) break;
      p0[u] = fb::load_packed_up_to<kVec>(r0 + col, readable - col);
    }
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index col = first + Index(u) * (kThreadsPerRow * kVec);
      if (col >= columns) break;
      const unsigned inside = fb::inside_of<kVec>(col, columns);  // bit k: column col + k is of this row
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(p0[u]);
      fb::Vec<float, kVec> e9 = fb::splat<kVec>(float(-INFINITY));
      fb::Vec<float, kVec> e20 = fb::splat<kVec>(float(-INFINITY));
      fb::Vec<float, kVec> e25 = fb::splat<kVec>(float(INFINITY));
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t0 = v0[k];
        const float t2 = fb::cast<float>(t0);  // batches_inner.yaml:24
        const float t4 = t2 * 0.5f;  // batches_inner.yaml:24
        const float t6 = t4 + 1.0f;  // y, batches_inner.yaml:24
        if (fb::is_inside(inside, k)) e9[k] = t6;
        if (fb::is_inside(inside, k)) e20[k] = t6;
        if (fb::is_inside(inside, k)) e25[k] = t6;
      }
      fb::add_exponentials(a9, e9);
      w20.add(e20, col);
      w25.add(e25, col);
    }
  }
  auto a20 = w20.state<lambdas::builtin_argmax_float::State>({float(-INFINITY), int64_t(9223372036854775807LL)});
  auto a25 = w25.state<lambdas::earlier::State>({float(INFINITY), int64_t(9223372036854775807LL)});
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
  fb::reduce_row<kThreadsPerRow, kRowsPerBlock>(fb::accumulator<fb::ExpSum<float>>(a9),
      fb::accumulator<lambdas::builtin_argmax_float>(a20), fb::accumulator<lambdas::earlier>(a25),
      fb::accumulator<fb::Sum>(a30), fb::accumulator<fb::Sum>(a34));
  if (lane != 0) return;

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

FUSEBUILD_ENTRY(reduction_inner_ace9501948b8011b)
