// adaln_backward.yaml, segment 0: inner_persistent, variant registers_vec8_int32
// segment fids to original fids: {0: 0, 1: 2, 2: 3, 3: 4, 4: 5, 5: 6, 40: 61}
// schedule: threads.per_row=32 threads.rows=4 storage=registers chunks=4 cached=[2, 5]
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreadsPerRow = 32;
constexpr int kRowsPerBlock = 4;
constexpr int kVec = 8;  // neighbouring elements per access
constexpr int kChunks = 4;  // vectors of a row that a thread holds

FUSEBUILD_KERNEL(kThreadsPerRow * kRowsPerBlock, 2)
inner_persistent_ab1da2e86ee8bf8b(
    const __nv_bfloat16* __restrict__ T0,  // weight: bfloat16[B~, S~, D]
    const __nv_bfloat16* __restrict__ T1,  // scale: bfloat16[B, 1, D]
    const __nv_bfloat16* __restrict__ T2,  // grad_y: bfloat16[B, S, D]
    const float* __restrict__ T3,  // mean: float[B, S]
    const float* __restrict__ T4,  // rstd: float[B, S, 1]
    const __nv_bfloat16* __restrict__ T5,  // x: bfloat16[B, S, D]
    __nv_bfloat16* __restrict__ T40,  // grad_x: bfloat16[B, S, D]
    int64_t s30,  // D
    int64_t n0,  // B
    int64_t n1,  // S
    int64_t n2) {  // D
  const int64_t rows = n0 * n1;
  const Index columns = n2;
  const int lane = fb::thread_x() % kThreadsPerRow;
  const int64_t wanted = int64_t(fb::block_x()) * kRowsPerBlock + fb::thread_x() / kThreadsPerRow;
  const bool active = wanted < rows;  // the last block's spare threads repeat a row and store nothing
  const int64_t row = active ? wanted : rows - 1;
  const double s31 = fb::cast<double>(s30);  // adaln_backward.yaml:42
  const double s32 = fb::reciprocal(s31);  // inverse_width, adaln_backward.yaml:42
  const int64_t i0 = row / n1;
  const float t3 = T3[row];  // mean
  const float t4 = T4[row];  // rstd
  const float t27 = t4 * t4;  // adaln_backward.yaml:41
  const float t28 = t27 * t4;  // adaln_backward.yaml:41
  const __nv_bfloat16* r0 = T0;
  const __nv_bfloat16* r1 = T1 + i0 * n2;
  const __nv_bfloat16* r2 = T2 + row * n2;
  const __nv_bfloat16* r5 = T5 + row * n2;
  __nv_bfloat16* r40 = T40 + row * n2;
  fb::Vec<__nv_bfloat16, kVec> c2[kChunks];
  fb::Vec<__nv_bfloat16, kVec> c5[kChunks];

  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = (Index(c) * kThreadsPerRow + lane) * kVec;
    if (col >= columns) break;
    c2[c] = fb::load<kVec>(r2 + col);
    c5[c] = fb::load<kVec>(r5 + col);
  }

  float a20 = fb::Sum::identity<float>();
  float a23 = fb::Sum::identity<float>();
  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = (Index(c) * kThreadsPerRow + lane) * kVec;
    if (col >= columns) break;
    const fb::Vec<__nv_bfloat16, kVec> v0 = fb::load<kVec>(r0 + col);
    const fb::Vec<__nv_bfloat16, kVec> v1 = fb::load<kVec>(r1 + col);
    const fb::Vec<__nv_bfloat16, kVec> v2 = c2[c];
    const fb::Vec<__nv_bfloat16, kVec> v5 = c5[c];
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const __nv_bfloat16 t0 = v0[k];
      const __nv_bfloat16 t1 = v1[k];
      const __nv_bfloat16 t2 = v2[k];
      const __nv_bfloat16 t5 = v5[k];
      const float t7 = fb::cast<float>(t5);  // adaln_backward.yaml:17
      const float t8 = t7 - t3;  // centered, adaln_backward.yaml:17
      const float t9 = fb::cast<float>(t0);  // weight_f, adaln_backward.yaml:19
      const float t10 = fb::cast<float>(t1);  // adaln_backward.yaml:21
      const float t12 = 1.0f + t10;  // adaln_backward.yaml:21
      const __nv_bfloat16 t13 = fb::cast<__nv_bfloat16>(t12);  // adaln_backward.yaml:21
      const float t14 = fb::cast<float>(t13);  // one_plus_scale, adaln_backward.yaml:21
      const float t15 = fb::cast<float>(t2);  // grad_y_f, adaln_backward.yaml:24
      const float t16 = t14 * t15;  // grad_affine, adaln_backward.yaml:32
      const float t17 = t9 * t16;  // grad_normed, adaln_backward.yaml:37
      const float t18 = t4 * t17;  // grad_centered, adaln_backward.yaml:38
      const float t19 = t8 * t17;  // adaln_backward.yaml:39
      const float t22 = -t18;  // adaln_backward.yaml:40
      a20 = fb::Sum::combine(a20, t19);
      a23 = fb::Sum::combine(a23, t22);
    }
  }
  fb::reduce_row<kThreadsPerRow, kRowsPerBlock>(fb::accumulator<fb::Sum>(a20), fb::accumulator<fb::Sum>(a23));
  const float t20 = a20;  // grad_rstd_sum, adaln_backward.yaml:39
  const float t23 = a23;  // grad_mean_sum, adaln_backward.yaml:40
  const float t26 = -0.5f * t20;  // adaln_backward.yaml:41
  const float t29 = t26 * t28;  // grad_var, adaln_backward.yaml:41
  const float t33 = fb::cast<float>(s32) * t23;  // through_mean, adaln_backward.yaml:43
  const float t35 = 2.0f * t29;  // adaln_backward.yaml:44

  if (!active) return;
  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = (Index(c) * kThreadsPerRow + lane) * kVec;
    if (col >= columns) break;
    const fb::Vec<__nv_bfloat16, kVec> v0 = fb::load<kVec>(r0 + col);
    const fb::Vec<__nv_bfloat16, kVec> v1 = fb::load<kVec>(r1 + col);
    const fb::Vec<__nv_bfloat16, kVec> v2 = c2[c];
    const fb::Vec<__nv_bfloat16, kVec> v5 = c5[c];
    fb::Vec<__nv_bfloat16, kVec> o40;
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const __nv_bfloat16 t0 = v0[k];
      const __nv_bfloat16 t1 = v1[k];
      const __nv_bfloat16 t2 = v2[k];
      const __nv_bfloat16 t5 = v5[k];
      const float t7 = fb::cast<float>(t5);  // adaln_backward.yaml:17
      const float t8 = t7 - t3;  // centered, adaln_backward.yaml:17
      const float t9 = fb::cast<float>(t0);  // weight_f, adaln_backward.yaml:19
      const float t10 = fb::cast<float>(t1);  // adaln_backward.yaml:21
      const float t12 = 1.0f + t10;  // adaln_backward.yaml:21
      const __nv_bfloat16 t13 = fb::cast<__nv_bfloat16>(t12);  // adaln_backward.yaml:21
      const float t14 = fb::cast<float>(t13);  // one_plus_scale, adaln_backward.yaml:21
      const float t15 = fb::cast<float>(t2);  // grad_y_f, adaln_backward.yaml:24
      const float t16 = t14 * t15;  // grad_affine, adaln_backward.yaml:32
      const float t17 = t9 * t16;  // grad_normed, adaln_backward.yaml:37
      const float t18 = t4 * t17;  // grad_centered, adaln_backward.yaml:38
      const float t36 = t35 * t8;  // adaln_backward.yaml:44
      const float t37 = t36 * fb::cast<float>(s32);  // through_var, adaln_backward.yaml:44
      const float t38 = t33 + t37;  // adaln_backward.yaml:45
      const float t39 = t18 + t38;  // grad_x, adaln_backward.yaml:45
      const __nv_bfloat16 t40 = fb::cast<__nv_bfloat16>(t39);  // adaln_backward.yaml:51
      o40[k] = t40;
    }
    fb::store(r40 + col, o40);
  }
}

FUSEBUILD_ENTRY(inner_persistent_ab1da2e86ee8bf8b)
