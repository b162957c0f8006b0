// adaln_backward.yaml, segment 0: inner_outer_persistent, variant registers_vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 59: 57, 60: 58, 61: 59, 62: 60, 63: 61}
// schedule: threads.per_row=128 threads.rows=1 storage=registers chunks=1 at_once=2 splits=7 groups=56 fetched=[3, 6] resident=[0, 1, 2] min_blocks=3
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreadsPerRow = 128;
constexpr int kRowsPerBlock = 1;  // rows side by side in a block
constexpr int kRows = 2;  // rows that a thread works on together
constexpr int kVec = 8;  // neighbouring elements per access
constexpr int kChunks = 1;  // vectors of a row that a thread owns
constexpr int kSplits = 7;  // blocks that share the rows of one outer index
constexpr int kGroups = 56;  // blocks that share the outer indices
constexpr int kStride = kSplits * kRowsPerBlock;  // from one row of a thread to its next: blocks work on neighbours

FUSEBUILD_KERNEL(kThreadsPerRow * kRowsPerBlock, 3)
inner_outer_persistent_1aee3347590fdb53(
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
  float c4[kRows], q4[kRows]{};
  float c5[kRows], q5[kRows]{};
  fb::Packed<__nv_bfloat16, kVec> c3[kRows][kChunks], q3[kRows][kChunks]{};
  fb::Packed<__nv_bfloat16, kVec> c6[kRows][kChunks], q6[kRows][kChunks]{};
  const int group = fb::block_y();
  float* p33 = P33 + (group * kSplits + split) * n2;
  float* p35 = P35 + (group * kSplits + split) * n2;
  fb::Vec<float, kVec> h11[kChunks];
  fb::Vec<float, kVec> h13[kChunks];
  fb::Vec<float, kVec> a33[kChunks];
  fb::Vec<float, kVec> a35[kChunks];
  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    a33[c] = fb::splat<kVec>(fb::Sum::identity<float>());
    a35[c] = fb::splat<kVec>(fb::Sum::identity<float>());
  }
  if (begin < depth && group < n0) {  // else inputs may have no memory
    FUSEBUILD_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      const Index col = (Index(c) * kThreadsPerRow + lane) * kVec;
      if (col >= columns) break;
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::load<kVec>(T0 + col);
      const fb::Vec<__nv_bfloat16, kVec> v1 = fb::load<kVec>(T1 + col);
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t0 = v0[k];
        const __nv_bfloat16 t1 = v1[k];
        const float t11 = fb::cast<float>(t0);  // weight_f, adaln_backward.yaml:19
        const float t13 = fb::cast<float>(t1);  // adaln_backward.yaml:20
        h11[c][k] = t11;
        h13[c][k] = t13;
      }
    }
  }

  for (int64_t outer = group; outer < n0; outer += kGroups) {
    float* p21 = P21 + (split * n0 + outer) * n2;
    float* p27 = P27 + (split * n0 + outer) * n2;
    fb::Vec<float, kVec> h19[kChunks];
    fb::Vec<float, kVec> a21[kChunks];
    fb::Vec<float, kVec> a27[kChunks];
    FUSEBUILD_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      a21[c] = fb::splat<kVec>(fb::Sum::identity<float>());
      a27[c] = fb::splat<kVec>(fb::Sum::identity<float>());
    }
    if (begin < depth) {  // else inputs may have no memory
      FUSEBUILD_UNROLL
      for (int c = 0; c < kChunks; ++c) {
        const Index col = (Index(c) * kThreadsPerRow + lane) * kVec;
        if (col >= columns) break;
        const fb::Vec<__nv_bfloat16, kVec> v2 = fb::load<kVec>(T2 + outer * n2 + col);
        FUSEBUILD_UNROLL
        for (int k = 0; k < kVec; ++k) {
          const __nv_bfloat16 t2 = v2[k];
          const float t15 = fb::cast<float>(t2);  // adaln_backward.yaml:21
          const float t17 = 1.0f + t15;  // adaln_backward.yaml:21
          const __nv_bfloat16 t18 = fb::cast<__nv_bfloat16>(t17);  // adaln_backward.yaml:21
          const float t19 = fb::cast<float>(t18);  // one_plus_scale, adaln_backward.yaml:21
          h19[c][k] = t19;
        }
      }
    }
    FUSEBUILD_UNROLL
    for (int u = 0; u < kRows; ++u) {
      const int64_t r = begin + u * kStride;
      if (r >= depth) break;
      const int64_t next = outer * depth + r;
      q4[u] = T4[next];
      q5[u] = T5[next];
      FUSEBUILD_UNROLL
      for (int c = 0; c < kChunks; ++c) {
        const Index col = (Index(c) * kThreadsPerRow + lane) * kVec;
        if (col >= columns) break;
        q3[u][c] = fb::load_packed<kVec>(T3 + next * n2 + col);
        q6[u][c] = fb::load_packed<kVec>(T6 + next * n2 + col);
      }
    }
    for (int64_t top = begin; top < depth; top += kRows * kStride) {
      FUSEBUILD_UNROLL
      for (int u = 0; u < kRows; ++u) {
        c4[u] = q4[u];
        c5[u] = q5[u];
        FUSEBUILD_UNROLL
        for (int c = 0; c < kChunks; ++c) {
          c3[u][c] = q3[u][c];
          c6[u][c] = q6[u][c];
        }
      }
      FUSEBUILD_UNROLL
      for (int u = 0; u < kRows; ++u) {
        const int64_t r = top + kRows * kStride + u * kStride;
        if (r >= depth) break;
        const int64_t next = outer * depth + r;
        q4[u] = T4[next];
        q5[u] = T5[next];
        FUSEBUILD_UNROLL
        for (int c = 0; c < kChunks; ++c) {
          const Index col = (Index(c) * kThreadsPerRow + lane) * kVec;
          if (col >= columns) break;
          q3[u][c] = fb::load_packed<kVec>(T3 + next * n2 + col);
          q6[u][c] = fb::load_packed<kVec>(T6 + next * n2 + col);
        }
      }
      fb::Vec<float, kRows> a39 = fb::splat<kRows>(fb::Sum::identity<float>());
      fb::Vec<float, kRows> a42 = fb::splat<kRows>(fb::Sum::identity<float>());
      FUSEBUILD_UNROLL
      for (int u = 0; u < kRows; ++u) {
        const int64_t r = top + u * kStride;
        if (r >= depth) break;
        const float t4 = c4[u];  // mean
        const float t5 = c5[u];  // rstd
        FUSEBUILD_UNROLL
        for (int c = 0; c < kChunks; ++c) {
          const Index col = (Index(c) * kThreadsPerRow + lane) * kVec;
          if (col >= columns) break;
          const fb::Vec<__nv_bfloat16, kVec> v3 = fb::unpack(c3[u][c]);
          const fb::Vec<__nv_bfloat16, kVec> v6 = fb::unpack(c6[u][c]);
          FUSEBUILD_UNROLL
          for (int k = 0; k < kVec; ++k) {
            const float t11 = h11[c][k];
            const float t13 = h13[c][k];
            const float t19 = h19[c][k];
            const __nv_bfloat16 t3 = v3[k];
            const __nv_bfloat16 t6 = v6[k];
            const float t8 = fb::cast<float>(t6);  // adaln_backward.yaml:17
            const float t9 = t8 - t4;  // centered, adaln_backward.yaml:17
            const float t10 = t9 * t5;  // normed, adaln_backward.yaml:18
            const float t12 = t10 * t11;  // adaln_backward.yaml:20
            const float t14 = t12 + t13;  // affine, adaln_backward.yaml:20
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
            a21[c][k] = fb::Sum::combine(a21[c][k], t20);
            a27[c][k] = fb::Sum::combine(a27[c][k], t26);
            a33[c][k] = fb::Sum::combine(a33[c][k], t32);
            a35[c][k] = fb::Sum::combine(a35[c][k], t34);
          }
        }
      }
      fb::reduce_row<kThreadsPerRow, kRowsPerBlock>(phase, fb::accumulator<fb::Sum>(a39), fb::accumulator<fb::Sum>(a42));
      FUSEBUILD_UNROLL
      for (int u = 0; u < kRows; ++u) {
        const int64_t r = top + u * kStride;
        if (r >= depth) break;
        const int64_t row = outer * depth + r;
        const float t4 = c4[u];  // mean
        const float t5 = c5[u];  // rstd
        const float t39 = a39[u];  // grad_rstd_sum, adaln_backward.yaml:39
        const float t42 = a42[u];  // grad_mean_sum, adaln_backward.yaml:40
        const float t45 = -0.5f * t39;  // adaln_backward.yaml:41
        const float t46 = t5 * t5;  // adaln_backward.yaml:41
        const float t47 = t46 * t5;  // adaln_backward.yaml:41
        const float t48 = t45 * t47;  // grad_var, adaln_backward.yaml:41
        const float t52 = fb::cast<float>(s51) * t42;  // through_mean, adaln_backward.yaml:43
        const float t54 = 2.0f * t48;  // adaln_backward.yaml:44
        __nv_bfloat16* r63 = T63 + row * n2;
        FUSEBUILD_UNROLL
        for (int c = 0; c < kChunks; ++c) {
          const Index col = (Index(c) * kThreadsPerRow + lane) * kVec;
          if (col >= columns) break;
          const fb::Vec<__nv_bfloat16, kVec> v3 = fb::unpack(c3[u][c]);
          const fb::Vec<__nv_bfloat16, kVec> v6 = fb::unpack(c6[u][c]);
          fb::Vec<__nv_bfloat16, kVec> o63;
          FUSEBUILD_UNROLL
          for (int k = 0; k < kVec; ++k) {
            const float t11 = h11[c][k];
            const float t19 = h19[c][k];
            const __nv_bfloat16 t3 = v3[k];
            const __nv_bfloat16 t6 = v6[k];
            const float t8 = fb::cast<float>(t6);  // adaln_backward.yaml:17
            const float t9 = t8 - t4;  // centered, adaln_backward.yaml:17
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

    FUSEBUILD_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      const Index col = (Index(c) * kThreadsPerRow + lane) * kVec;
      if (col >= columns) continue;
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        p21[col + k] = a21[c][k];
        p27[col + k] = a27[c][k];
      }
    }
  }

  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = (Index(c) * kThreadsPerRow + lane) * kVec;
    if (col >= columns) continue;
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      p33[col + k] = a33[c][k];
      p35[col + k] = a35[c][k];
    }
  }
}

FUSEBUILD_ENTRY(inner_outer_persistent_1aee3347590fdb53)
