// adaln_backward.yaml, segment 0: inner_outer_persistent, variant scratch_scalar_int64
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 20: 20, 28: 26, 52: 49, 53: 50, 54: 51}
// schedule: threads.per_row=512 threads.rows=1 cluster=1 storage=scratch chunks=0 at_once=1 stages=1 fetched=[]
//   resident=[] packed=[] min_blocks=1 finishes=False copied=0 in_place=[]
// launch: segment 0, scratch_scalar_int64 1 of 2 on sm_90: grid min(gpu.multiprocessors, max(1, (B*S) // 4, min(B*S,
//   gpu.multiprocessors))), 1, 1; block 512, 1, 1; overlaps what is before; given weight, scale, grad_y, mean, rstd, x,
//   grad_x, slot 0 of max(4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 16384))) + 2*B*D), 4*(max(1,
//   min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512)) > 1)*max(1, min((16*gpu.multiprocessors) // max(1, B),
//   (S*D) // 512))*B*D) bytes, slot 1 of max(4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 16384))) +
//   2*B*D), 4*(max(1, min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512)) > 1)*max(1,
//   min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512))*B*D) bytes, D, B, S, D
#include <fusebuild/kernel.cuh>

using Index = int64_t;
constexpr int kThreadsPerRow = 512;
constexpr int kRowsPerBlock = 1;  // rows side by side in a block
constexpr int kRows = 1;  // rows that a thread works on together
constexpr int kVec = 1;  // neighbouring elements per access

FUSEBUILD_KERNEL(kThreadsPerRow * kRowsPerBlock, 1)
inner_outer_persistent_0909124dddb506c7(
    const __nv_bfloat16* T0,  // weight: bfloat16[D]
    const __nv_bfloat16* T2,  // scale: bfloat16[B, 1, D]
    const __nv_bfloat16* T3,  // grad_y: bfloat16[B, S, D]
    const float* T4,  // mean: float[B, S]
    const float* T5,  // rstd: float[B, S, 1]
    const __nv_bfloat16* T6,  // x: bfloat16[B, S, D]
    __nv_bfloat16* __restrict__ T54,  // grad_x: bfloat16[B, S, D]
    float* __restrict__ P18,  // partial results of grad_sum
    float* __restrict__ P19,  // partial results of normed_sum
    int64_t s36,  // D
    int64_t n0,  // B
    int64_t n1,  // S
    int64_t n2) {  // D
  fb::let_next_kernel_start();  // it waits for the end of this one
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const Index columns = n2;
  const int lane = fb::thread_x();
  const int block = fb::block_x();
  fb::ReducePhase phase;
  const int64_t blocks = fb::grid_x();  // which share the rows
  constexpr int stride = kRowsPerBlock;  // from one row of a thread to its next
  const Index outers = n0, depth = n1, most = blocks;
  const auto share = fb::partition(outers, depth, most);
  const Index begin = share.begin(block), end = share.begin(block + 1);
  const double s37 = fb::cast<double>(s36);  // adaln_backward.yaml:36
  const double s38 = fb::reciprocal(s37);  // adaln_backward.yaml:36
  const float s39 = fb::cast<float>(s38);  // inverse_width, adaln_backward.yaml:36

  for (Index outer = share.outer_of(begin); begin < end && outer < outers; ++outer) {
    const Index place = outer * share.places();  // of its first row
    if (place >= end) break;
    const Index first = begin < place ? place : begin;
    const Index last = depth < end - place ? place + depth : end;
    const Index part = place < begin ? block - share.first_block(outer) : 0;
    float* b18 = P18 + (part * n0 + outer) * n2;
    float* b19 = P19 + (part * n0 + outer) * n2;
    for (Index col = Index(lane) * kVec; col < columns; col += kThreadsPerRow * kVec) {
      fb::store(b18 + col, fb::splat<kVec>(fb::Sum::identity<float>()));
      fb::store(b19 + col, fb::splat<kVec>(fb::Sum::identity<float>()));
    }

    for (int64_t top = first; top < last; top += kRows * stride) {
      fb::Vec<float, kRows> a40 = fb::splat<kRows>(fb::Sum::identity<float>());
      fb::Vec<float, kRows> a44 = fb::splat<kRows>(fb::Sum::identity<float>());
      FUSEBUILD_UNROLL
      for (int u = 0; u < kRows; ++u) {
        const int64_t row = top + u * stride;
        if (row >= last) break;
        const int64_t i0 = row / n1;
        const float t4 = T4[row];  // mean
        const float t5 = T5[row];  // rstd
        const __nv_bfloat16* r0 = T0;
        const __nv_bfloat16* r2 = T2 + i0 * n2;
        const __nv_bfloat16* r3 = T3 + row * n2;
        const __nv_bfloat16* r6 = T6 + row * n2;
        for (Index col = Index(lane) * kVec; col < columns; col += kThreadsPerRow * kVec) {
          const fb::Vec<__nv_bfloat16, kVec> v0 = fb::load<kVec>(r0 + col);
          const fb::Vec<__nv_bfloat16, kVec> v2 = fb::load<kVec>(r2 + col);
          const fb::Vec<__nv_bfloat16, kVec> v3 = fb::load<kVec>(r3 + col);
          const fb::Vec<__nv_bfloat16, kVec> v6 = fb::load<kVec>(r6 + col);
          fb::Vec<float, kVec> m18 = fb::load<kVec>(b18 + col);
          fb::Vec<float, kVec> m19 = fb::load<kVec>(b19 + col);
          FUSEBUILD_UNROLL
          for (int k = 0; k < kVec; ++k) {
            const __nv_bfloat16 t0 = v0[k];
            const __nv_bfloat16 t2 = v2[k];
            const __nv_bfloat16 t3 = v3[k];
            const __nv_bfloat16 t6 = v6[k];
            const float t7 = fb::cast<float>(t3);  // grad_y_f, adaln_backward.yaml:17
            const float t8 = fb::cast<float>(t6);  // adaln_backward.yaml:18
            const float t10 = t8 - t4;  // centered, adaln_backward.yaml:18
            const float t11 = fb::cast<float>(t2);  // adaln_backward.yaml:19
            const float t13 = 1.0f + t11;  // adaln_backward.yaml:19
            const __nv_bfloat16 t14 = fb::cast<__nv_bfloat16>(t13);  // adaln_backward.yaml:19
            const float t15 = fb::cast<float>(t14);  // one_plus_scale, adaln_backward.yaml:19
            const float t16 = t5 * t7;  // scaled_grad, adaln_backward.yaml:20
            const float t17 = t10 * t16;  // normed_grad, adaln_backward.yaml:21
            const float t21 = fb::cast<float>(t0);  // adaln_backward.yaml:27
            const float t34 = t21 * t15;  // adaln_backward.yaml:35
            const float t35 = t34 * t16;  // grad_centered, adaln_backward.yaml:35
            const float t43 = t10 * t35;  // adaln_backward.yaml:38
            a40[u] = fb::Sum::combine(a40[u], t35);
            a44[u] = fb::Sum::combine(a44[u], t43);
            m18[k] = fb::Sum::combine(m18[k], t7);
            m19[k] = fb::Sum::combine(m19[k], t17);
          }
          fb::store(b18 + col, m18);
          fb::store(b19 + col, m19);
        }
      }
      fb::reduce_row<kThreadsPerRow, kRowsPerBlock>(phase, fb::accumulator<fb::Sum>(a40),
          fb::accumulator<fb::Sum>(a44));
      FUSEBUILD_UNROLL
      for (int u = 0; u < kRows; ++u) {
        const int64_t row = top + u * stride;
        if (row >= last) break;
        const int64_t i0 = row / n1;
        const float t4 = T4[row];  // mean
        const float t5 = T5[row];  // rstd
        const float t40 = a40[u];  // adaln_backward.yaml:37
        const float t44 = a44[u];  // adaln_backward.yaml:38
        const float t42 = t40 * s39;  // through_mean, adaln_backward.yaml:37
        const float t46 = t44 * t5;  // adaln_backward.yaml:38
        const float t47 = t46 * t5;  // adaln_backward.yaml:38
        const float t48 = t47 * s39;  // through_var, adaln_backward.yaml:38
        const __nv_bfloat16* r0 = T0;
        const __nv_bfloat16* r2 = T2 + i0 * n2;
        const __nv_bfloat16* r3 = T3 + row * n2;
        const __nv_bfloat16* r6 = T6 + row * n2;
        __nv_bfloat16* r54 = T54 + row * n2;
        for (Index col = Index(lane) * kVec; col < columns; col += kThreadsPerRow * kVec) {
          const fb::Vec<__nv_bfloat16, kVec> v0 = fb::load<kVec>(r0 + col);
          const fb::Vec<__nv_bfloat16, kVec> v2 = fb::load<kVec>(r2 + col);
          const fb::Vec<__nv_bfloat16, kVec> v3 = fb::load<kVec>(r3 + col);
          const fb::Vec<__nv_bfloat16, kVec> v6 = fb::load<kVec>(r6 + col);
          fb::Vec<__nv_bfloat16, kVec> o54;
          FUSEBUILD_UNROLL
          for (int k = 0; k < kVec; ++k) {
            const __nv_bfloat16 t0 = v0[k];
            const __nv_bfloat16 t2 = v2[k];
            const __nv_bfloat16 t3 = v3[k];
            const __nv_bfloat16 t6 = v6[k];
            const float t7 = fb::cast<float>(t3);  // grad_y_f, adaln_backward.yaml:17
            const float t8 = fb::cast<float>(t6);  // adaln_backward.yaml:18
            const float t10 = t8 - t4;  // centered, adaln_backward.yaml:18
            const float t11 = fb::cast<float>(t2);  // adaln_backward.yaml:19
            const float t13 = 1.0f + t11;  // adaln_backward.yaml:19
            const __nv_bfloat16 t14 = fb::cast<__nv_bfloat16>(t13);  // adaln_backward.yaml:19
            const float t15 = fb::cast<float>(t14);  // one_plus_scale, adaln_backward.yaml:19
            const float t16 = t5 * t7;  // scaled_grad, adaln_backward.yaml:20
            const float t21 = fb::cast<float>(t0);  // adaln_backward.yaml:27
            const float t34 = t21 * t15;  // adaln_backward.yaml:35
            const float t35 = t34 * t16;  // grad_centered, adaln_backward.yaml:35
            const float t49 = t48 * t10;  // adaln_backward.yaml:39
            const float t50 = t42 + t49;  // adaln_backward.yaml:39
            const float t51 = t35 - t50;  // grad_x, adaln_backward.yaml:39
            const __nv_bfloat16 t54 = fb::cast<__nv_bfloat16>(t51);  // adaln_backward.yaml:45
            o54[k] = t54;
          }
          fb::store(r54 + col, o54);
        }
      }
    }

    if (place + share.places() > end) continue;
    for (int64_t blank = part + 1; blank < share.most_parts; ++blank) {  // parts that no block has
      for (Index col = Index(lane) * kVec; col < columns; col += kThreadsPerRow * kVec) {
        fb::store(P18 + (blank * n0 + outer) * n2 + col, fb::splat<kVec>(fb::Sum::identity<float>()));
        fb::store(P19 + (blank * n0 + outer) * n2 + col, fb::splat<kVec>(fb::Sum::identity<float>()));
      }
    }
  }
}

FUSEBUILD_ENTRY(inner_outer_persistent_0909124dddb506c7)
