// adaln_backward.yaml, segment 0: inner_persistent, variant registers_vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 20: 20, 21: 26, 22: 32, 23: 34, 47: 61}
// schedule: threads.per_row=32 threads.rows=4 storage=registers chunks=4 cached=[3, 6]
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreadsPerRow = 32;
constexpr int kRowsPerBlock = 4;
constexpr int kVec = 8;  // neighbouring elements per access
constexpr int kChunks = 4;  // vectors of a row that a thread holds

FUSEBUILD_KERNEL(kThreadsPerRow * kRowsPerBlock, 2)
inner_persistent_d969318c7be9ff7f(
    const __nv_bfloat16* __restrict__ T0,  // weight: bfloat16[B~, S~, D]
    const __nv_bfloat16* __restrict__ T1,  // bias: bfloat16[B~, S~, D]
    const __nv_bfloat16* __restrict__ T2,  // scale: bfloat16[B, 1, D]
    const __nv_bfloat16* __restrict__ T3,  // grad_y: bfloat16[B, S, D]
    const float* __restrict__ T4,  // mean: float[B, S]
    const float* __restrict__ T5,  // rstd: float[B, S, 1]
    const __nv_bfloat16* __restrict__ T6,  // x: bfloat16[B, S, D]
    float* __restrict__ T20,  // grad_y_f: float[B, S, D]
    float* __restrict__ T21,  // t26: float[B, S, D]
    float* __restrict__ T22,  // grad_affine: float[B, S, D]
    float* __restrict__ T23,  // t34: float[B, S, D]
    __nv_bfloat16* __restrict__ T47,  // grad_x: bfloat16[B, S, D]
    int64_t s37,  // D
    int64_t n0,  // B
    int64_t n1,  // S
    int64_t n2) {  // D
  const int64_t rows = n0 * n1;
  const Index columns = n2;
  const int lane = fb::thread_x() % kThreadsPerRow;
  const int64_t wanted = int64_t(fb::block_x()) * kRowsPerBlock + fb::thread_x() / kThreadsPerRow;
  const bool active = wanted < rows;  // the last block's spare threads repeat a row and store nothing
  const int64_t row = active ? wanted : rows - 1;
  const double s38 = fb::cast<double>(s37);  // adaln_backward.yaml:42
  const double s39 = fb::reciprocal(s38);  // inverse_width, adaln_backward.yaml:42
  const int64_t i0 = row / n1;
  const float t4 = T4[row];  // mean
  const float t5 = T5[row];  // rstd
  const float t34 = t5 * t5;  // adaln_backward.yaml:41
  const float t35 = t34 * t5;  // adaln_backward.yaml:41
  const __nv_bfloat16* r0 = T0;
  const __nv_bfloat16* r1 = T1;
  const __nv_bfloat16* r2 = T2 + i0 * n2;
  const __nv_bfloat16* r3 = T3 + row * n2;
  const __nv_bfloat16* r6 = T6 + row * n2;
  float* r20 = T20 + row * n2;
  float* r21 = T21 + row * n2;
  float* r22 = T22 + row * n2;
  float* r23 = T23 + row * n2;
  __nv_bfloat16* r47 = T47 + row * n2;
  fb::Vec<__nv_bfloat16, kVec> c3[kChunks];
  fb::Vec<__nv_bfloat16, kVec> c6[kChunks];

  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = (Index(c) * kThreadsPerRow + lane) * kVec;
    if (col >= columns) break;
    c3[c] = fb::load<kVec>(r3 + col);
    c6[c] = fb::load<kVec>(r6 + col);
  }

  float a27 = fb::Sum::identity<float>();
  float a30 = fb::Sum::identity<float>();
  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = (Index(c) * kThreadsPerRow + lane) * kVec;
    if (col >= columns) break;
    const fb::Vec<__nv_bfloat16, kVec> v0 = fb::load<kVec>(r0 + col);
    const fb::Vec<__nv_bfloat16, kVec> v2 = fb::load<kVec>(r2 + col);
    const fb::Vec<__nv_bfloat16, kVec> v3 = c3[c];
    const fb::Vec<__nv_bfloat16, kVec> v6 = c6[c];
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const __nv_bfloat16 t0 = v0[k];
      const __nv_bfloat16 t2 = v2[k];
      const __nv_bfloat16 t3 = v3[k];
      const __nv_bfloat16 t6 = v6[k];
      const float t8 = fb::cast<float>(t6);  // adaln_backward.yaml:17
      const float t9 = t8 - t4;  // centered, adaln_backward.yaml:17
      const float t11 = fb::cast<float>(t0);  // weight_f, adaln_backward.yaml:19
      const float t15 = fb::cast<float>(t2);  // adaln_backward.yaml:21
      const float t17 = 1.0f + t15;  // adaln_backward.yaml:21
      const __nv_bfloat16 t18 = fb::cast<__nv_bfloat16>(t17);  // adaln_backward.yaml:21
      const float t19 = fb::cast<float>(t18);  // one_plus_scale, adaln_backward.yaml:21
      const float t20 = fb::cast<float>(t3);  // grad_y_f, adaln_backward.yaml:24
      const float t22 = t19 * t20;  // grad_affine, adaln_backward.yaml:32
      const float t24 = t11 * t22;  // grad_normed, adaln_backward.yaml:37
      const float t25 = t5 * t24;  // grad_centered, adaln_backward.yaml:38
      const float t26 = t9 * t24;  // adaln_backward.yaml:39
      const float t29 = -t25;  // adaln_backward.yaml:40
      a27 = fb::Sum::combine(a27, t26);
      a30 = fb::Sum::combine(a30, t29);
    }
  }
  fb::reduce_row<kThreadsPerRow, kRowsPerBlock>(fb::accumulator<fb::Sum>(a27), fb::accumulator<fb::Sum>(a30));
  const float t27 = a27;  // grad_rstd_sum, adaln_backward.yaml:39
  const float t30 = a30;  // grad_mean_sum, adaln_backward.yaml:40
  const float t33 = -0.5f * t27;  // adaln_backward.yaml:41
  const float t36 = t33 * t35;  // grad_var, adaln_backward.yaml:41
  const float t40 = fb::cast<float>(s39) * t30;  // through_mean, adaln_backward.yaml:43
  const float t42 = 2.0f * t36;  // adaln_backward.yaml:44

  if (!active) return;
  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = (Index(c) * kThreadsPerRow + lane) * kVec;
    if (col >= columns) break;
    const fb::Vec<__nv_bfloat16, kVec> v0 = fb::load<kVec>(r0 + col);
    const fb::Vec<__nv_bfloat16, kVec> v1 = fb::load<kVec>(r1 + col);
    const fb::Vec<__nv_bfloat16, kVec> v2 = fb::load<kVec>(r2 + col);
    const fb::Vec<__nv_bfloat16, kVec> v3 = c3[c];
    const fb::Vec<__nv_bfloat16, kVec> v6 = c6[c];
    fb::Vec<float, kVec> o20;
    fb::Vec<float, kVec> o21;
    fb::Vec<float, kVec> o22;
    fb::Vec<float, kVec> o23;
    fb::Vec<__nv_bfloat16, kVec> o47;
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const __nv_bfloat16 t0 = v0[k];
      const __nv_bfloat16 t1 = v1[k];
      const __nv_bfloat16 t2 = v2[k];
      const __nv_bfloat16 t3 = v3[k];
      const __nv_bfloat16 t6 = v6[k];
      const float t8 = fb::cast<float>(t6);  // adaln_backward.yaml:17
      const float t9 = t8 - t4;  // centered, adaln_backward.yaml:17
      const float t10 = t9 * t5;  // normed, adaln_backward.yaml:18
      const float t11 = fb::cast<float>(t0);  // weight_f, adaln_backward.yaml:19
      const float t12 = t10 * t11;  // adaln_backward.yaml:20
      const float t13 = fb::cast<float>(t1);  // adaln_backward.yaml:20
      const float t14 = t12 + t13;  // affine, adaln_backward.yaml:20
      const float t15 = fb::cast<float>(t2);  // adaln_backward.yaml:21
      const float t17 = 1.0f + t15;  // adaln_backward.yaml:21
      const __nv_bfloat16 t18 = fb::cast<__nv_bfloat16>(t17);  // adaln_backward.yaml:21
      const float t19 = fb::cast<float>(t18);  // one_plus_scale, adaln_backward.yaml:21
      const float t20 = fb::cast<float>(t3);  // grad_y_f, adaln_backward.yaml:24
      const float t21 = t14 * t20;  // adaln_backward.yaml:27
      const float t22 = t19 * t20;  // grad_affine, adaln_backward.yaml:32
      const float t23 = t10 * t22;  // adaln_backward.yaml:34
      const float t24 = t11 * t22;  // grad_normed, adaln_backward.yaml:37
      const float t25 = t5 * t24;  // grad_centered, adaln_backward.yaml:38
      const float t43 = t42 * t9;  // adaln_backward.yaml:44
      const float t44 = t43 * fb::cast<float>(s39);  // through_var, adaln_backward.yaml:44
      const float t45 = t40 + t44;  // adaln_backward.yaml:45
      const float t46 = t25 + t45;  // grad_x, adaln_backward.yaml:45
      const __nv_bfloat16 t47 = fb::cast<__nv_bfloat16>(t46);  // adaln_backward.yaml:51
      o20[k] = t20;
      o21[k] = t21;
      o22[k] = t22;
      o23[k] = t23;
      o47[k] = t47;
    }
    fb::store(r20 + col, o20);
    fb::store(r21 + col, o21);
    fb::store(r22 + col, o22);
    fb::store(r23 + col, o23);
    fb::store(r47 + col, o47);
  }
}

FUSEBUILD_ENTRY(inner_persistent_d969318c7be9ff7f)
