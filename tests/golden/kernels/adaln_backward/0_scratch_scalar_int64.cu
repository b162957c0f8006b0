// adaln_backward.yaml, segment 0: inner_outer_persistent, variant scratch_scalar_int64
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 59: 57, 60: 58, 61: 59, 62: 60, 63: 61}
// schedule: threads.per_row=128 threads.rows=1 storage=scratch chunks=0 at_once=1 splits=9 groups=56 fetched=[] resident=[] min_blocks=4
#include <fusebuild/kernel.cuh>

using Index = int64_t;
constexpr int kThreadsPerRow = 128;
constexpr int kRowsPerBlock = 1;  // rows side by side in a block
constexpr int kRows = 1;  // rows that a thread works on together
constexpr int kVec = 1;  // neighbouring elements per access
constexpr int kSplits = 9;  // blocks that share the rows of one outer index
constexpr int kGroups = 56;  // blocks that share the outer indices
constexpr int kStride = kSplits * kRowsPerBlock;  // from one row of a thread to its next: blocks work on neighbours

FUSEBUILD_KERNEL(kThreadsPerRow * kRowsPerBlock, 4)
inner_outer_persistent_6aeb87fe883d5aad(
    const __nv_bfloat16* __restrict__ T0,  // weight: bfloat16[B~, S~, D]
    const __nv_bfloat16* __restrict__ T1,  // bias: bfloat16[B~, S~, D]
    const __nv_bfloat16* __restrict__ T2,  // scale: bfloat16[B, 1, D]
    const __nv_bfloat16* __restrict__ T3,  // grad_y: bfloat16[B, S, D]
    const float* __restrict__ T4,  // mean: float[B, S]
    const float* __restrict__ T5,  // rstd: float[B, S, 1]
    const __nv_bfloat16* __restrict__ T6,  // x: bfloat16[B, S, D]
    __nv_bfloat16* __restrict__ T63,  // grad_x: bfloat16[B, S, D]
    float* __restrict__ P21,  // partial results of t21
    float* __restrict__ P27,  // partial results of t27
    float* __restrict__ P33,  // partial results of grad_bias
    float* __restrict__ P35,  // partial results of grad_weight
    int64_t s49,  // D
    int64_t n0,  // B
    int64_t n1,  // S
    int64_t n2) {  // D
  const Index columns = n2;
  const int64_t depth = n1;
  const int lane = fb::thread_x();
  const int split = fb::block_x();
  const int64_t begin = split * kRowsPerBlock;
  fb::ReducePhase phase;
  const double s50 = fb::cast<double>(s49);  // adaln_backward.yaml:42
  const double s51 = fb::reciprocal(s50);  // inverse_width, adaln_backward.yaml:42
  const int group = fb::block_y();
  float* b33 = P33 + (group * kSplits + split) * n2;
  float* b35 = P35 + (group * kSplits + split) * n2;
  for (Index col = Index(lane) * kVec; col < columns; col += kThreadsPerRow * kVec) {
    fb::store(b33 + col, fb::splat<kVec>(fb::Sum::identity<float>()));
    fb::store(b35 + col, fb::splat<kVec>(fb::Sum::identity<float>()));
  }

  for (int64_t outer = group; outer < n0; outer += kGroups) {
    float* b21 = P21 + (split * n0 + outer) * n2;
    float* b27 = P27 + (split * n0 + outer) * n2;
    for (Index col = Index(lane) * kVec; col < columns; col += kThreadsPerRow * kVec) {
      fb::store(b21 + col, fb::splat<kVec>(fb::Sum::identity<float>()));
      fb::store(b27 + col, fb::splat<kVec>(fb::Sum::identity<float>()));
    }
    for (int64_t top = begin; top < depth; top += kRows * kStride) {
      fb::Vec<float, kRows> a39 = fb::splat<kRows>(fb::Sum::identity<float>());
      fb::Vec<float, kRows> a42 = fb::splat<kRows>(fb::Sum::identity<float>());
      FUSEBUILD_UNROLL
      for (int u = 0; u < kRows; ++u) {
        const int64_t r = top + u * kStride;
        if (r >= depth) break;
        const int64_t row = outer * depth + r;
        const int64_t i0 = row / n1;
        const float t4 = T4[row];  // mean
        const float t5 = T5[row];  // rstd
        const __nv_bfloat16* r0 = T0;
        const __nv_bfloat16* r1 = T1;
        const __nv_bfloat16* r2 = T2 + i0 * n2;
        const __nv_bfloat16* r3 = T3 + row * n2;
        const __nv_bfloat16* r6 = T6 + row * n2;
        for (Index col = Index(lane) * kVec; col < columns; col += kThreadsPerRow * kVec) {
          const fb::Vec<__nv_bfloat16, kVec> v0 = fb::load<kVec>(r0 + col);
          const fb::Vec<__nv_bfloat16, kVec> v1 = fb::load<kVec>(r1 + col);
          const fb::Vec<__nv_bfloat16, kVec> v2 = fb::load<kVec>(r2 + col);
          const fb::Vec<__nv_bfloat16, kVec> v3 = fb::load<kVec>(r3 + col);
          const fb::Vec<__nv_bfloat16, kVec> v6 = fb::load<kVec>(r6 + col);
          fb::Vec<float, kVec> m21 = fb::load<kVec>(b21 + col);
          fb::Vec<float, kVec> m27 = fb::load<kVec>(b27 + col);
          fb::Vec<float, kVec> m33 = fb::load<kVec>(b33 + col);
          fb::Vec<float, kVec> m35 = fb::load<kVec>(b35 + col);
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
            const float t26 = t14 * t20;  // adaln_backward.yaml:27
            const float t32 = t19 * t20;  // grad_affine, adaln_backward.yaml:32
            const float t34 = t10 * t32;  // adaln_backward.yaml:34
            const float t36 = t11 * t32;  // grad_normed, adaln_backward.yaml:37
            const float t37 = t5 * t36;  // grad_centered, adaln_backward.yaml:38
            const float t38 = t9 * t36;  // adaln_backward.yaml:39
            const float t41 = -t37;  // adaln_backward.yaml:40
            a39[u] = fb::Sum::combine(a39[u], t38);
            a42[u] = fb::Sum::combine(a42[u], t41);
            m21[k] = fb::Sum::combine(m21[k], t20);
            m27[k] = fb::Sum::combine(m27[k], t26);
            m33[k] = fb::Sum::combine(m33[k], t32);
            m35[k] = fb::Sum::combine(m35[k], t34);
          }
          fb::store(b21 + col, m21);
          fb::store(b27 + col, m27);
          fb::store(b33 + col, m33);
          fb::store(b35 + col, m35);
        }
      }
      fb::reduce_row<kThreadsPerRow, kRowsPerBlock>(phase, fb::accumulator<fb::Sum>(a39), fb::accumulator<fb::Sum>(a42));
      FUSEBUILD_UNROLL
      for (int u = 0; u < kRows; ++u) {
        const int64_t r = top + u * kStride;
        if (r >= depth) break;
        const int64_t row = outer * depth + r;
        const int64_t i0 = row / n1;
        const float t4 = T4[row];  // mean
        const float t5 = T5[row];  // rstd
        const float t39 = a39[u];  // grad_rstd_sum, adaln_backward.yaml:39
        const float t42 = a42[u];  // grad_mean_sum, adaln_backward.yaml:40
        const float t45 = -0.5f * t39;  // adaln_backward.yaml:41
        const float t46 = t5 * t5;  // adaln_backward.yaml:41
        const float t47 = t46 * t5;  // adaln_backward.yaml:41
        const float t48 = t45 * t47;  // grad_var, adaln_backward.yaml:41
        const float t52 = fb::cast<float>(s51) * t42;  // through_mean, adaln_backward.yaml:43
        const float t54 = 2.0f * t48;  // adaln_backward.yaml:44
        const __nv_bfloat16* r0 = T0;
        const __nv_bfloat16* r2 = T2 + i0 * n2;
        const __nv_bfloat16* r3 = T3 + row * n2;
        const __nv_bfloat16* r6 = T6 + row * n2;
        __nv_bfloat16* r63 = T63 + row * n2;
        for (Index col = Index(lane) * kVec; col < columns; col += kThreadsPerRow * kVec) {
          const fb::Vec<__nv_bfloat16, kVec> v0 = fb::load<kVec>(r0 + col);
          const fb::Vec<__nv_bfloat16, kVec> v2 = fb::load<kVec>(r2 + col);
          const fb::Vec<__nv_bfloat16, kVec> v3 = fb::load<kVec>(r3 + col);
          const fb::Vec<__nv_bfloat16, kVec> v6 = fb::load<kVec>(r6 + col);
          fb::Vec<__nv_bfloat16, kVec> o63;
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
            const float t32 = t19 * t20;  // grad_affine, adaln_backward.yaml:32
            const float t36 = t11 * t32;  // grad_normed, adaln_backward.yaml:37
            const float t37 = t5 * t36;  // grad_centered, adaln_backward.yaml:38
            const float t55 = t54 * t9;  // adaln_backward.yaml:44
            const float t56 = t55 * fb::cast<float>(s51);  // through_var, adaln_backward.yaml:44
            const float t57 = t52 + t56;  // adaln_backward.yaml:45
            const float t58 = t37 + t57;  // grad_x, adaln_backward.yaml:45
            const __nv_bfloat16 t63 = fb::cast<__nv_bfloat16>(t58);  // adaln_backward.yaml:51
            o63[k] = t63;
          }
          fb::store(r63 + col, o63);
        }
      }
    }
  }
}

FUSEBUILD_ENTRY(inner_outer_persistent_6aeb87fe883d5aad)
