// adaln_backward.yaml, segment 0: inner_outer_persistent, variant registers1024_vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 20: 20, 28: 26, 52: 49, 53: 50, 54: 51}
// schedule: threads.per_row=128 threads.rows=1 cluster=1 storage=registers chunks=1 at_once=2 stages=1 fetched=[3, 6]
//   resident=[0, 2] packed=[] min_blocks=4 finishes=True copied=8 in_place=[]
// launch: segment 0, registers1024_vec8_int32 1 of 3 on sm_90: grid min(4*gpu.multiprocessors, max(1, (B*S) // 4,
//   min(B*S, gpu.multiprocessors))), 1, 1; block 128, 1, 1; overlaps what is before; given weight, bias, scale, grad_y,
//   mean, rstd, x, grad_shift, grad_scale, grad_x, slot 0 of max(4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D,
//   min(8*D, 16384))) + 2*B*D), 4*(max(1, min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512)) > 1)*max(1,
//   min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512))*B*D) bytes, slot 1 of max(4*(min(max(1, B*S)*D,
//   gpu.multiprocessors*max(D, min(8*D, 16384))) + 2*B*D), 4*(max(1, min((16*gpu.multiprocessors) // max(1, B), (S*D)
//   // 512)) > 1)*max(1, min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512))*B*D) bytes, slot 2 of
//   max(4*min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 16384))), 4*min(2*gpu.multiprocessors, ceil_div(B*S*D,
//   1024))*D) bytes, slot 3 of max(4*min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 16384))),
//   4*min(2*gpu.multiprocessors, ceil_div(B*S*D, 1024))*D) bytes, D, B, S, D, (B > 0)*(ceil_div(B,
//   min(4*gpu.multiprocessors, max(1, (B*S) // 4, min(B*S, gpu.multiprocessors))))*max(1, S)*min(4*gpu.multiprocessors,
//   max(1, (B*S) // 4, min(B*S, gpu.multiprocessors))) <= B*(max(1, S) + 8)); if D < 2146435072, B*max(1, S) <
//   2146435072, (D % 8) == 0, aligned(weight, 16), aligned(bias, 16), aligned(scale, 16), aligned(grad_y, 16),
//   aligned(x, 16), aligned(grad_x, 16), D <= 1024
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreadsPerRow = 128;
constexpr int kRowsPerBlock = 1;  // rows side by side in a block
constexpr int kRows = 2;  // rows that a thread works on together
constexpr int kVec = 8;  // neighbouring elements per access
constexpr int kChunks = 1;  // vectors of a row that a thread owns

FUSEBUILD_KERNEL(kThreadsPerRow * kRowsPerBlock, 4)
inner_outer_persistent_b0446e6e12ad9dae(
    const __nv_bfloat16* T0,  // weight: bfloat16[D]
    const __nv_bfloat16* T1,  // bias: bfloat16[D]
    const __nv_bfloat16* T2,  // scale: bfloat16[B, 1, D]
    const __nv_bfloat16* T3,  // grad_y: bfloat16[B, S, D]
    const float* T4,  // mean: float[B, S]
    const float* T5,  // rstd: float[B, S, 1]
    const __nv_bfloat16* T6,  // x: bfloat16[B, S, D]
    __nv_bfloat16* __restrict__ T20,  // grad_shift: bfloat16[B, D]
    __nv_bfloat16* __restrict__ T28,  // grad_scale: bfloat16[B, D]
    __nv_bfloat16* __restrict__ T54,  // grad_x: bfloat16[B, S, D]
    float* __restrict__ P18,  // partial results of grad_sum
    float* __restrict__ P19,  // partial results of normed_sum
    float* __restrict__ P30,  // partial results of grad_bias
    float* __restrict__ P32,  // partial results of grad_weight
    int64_t s36,  // D
    int64_t n0,  // B
    int64_t n1,  // S
    int64_t n2,  // D
    int64_t whole) {  // 1: blocks have whole outer indices, and finish them
  fb::let_next_kernel_start();  // it waits for the end of this one
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const Index columns = n2;
  const int lane = fb::thread_x();
  const int block = fb::block_x();
  fb::ReducePhase phase;
  const int64_t blocks = fb::grid_x();  // which share the rows
  constexpr int stride = kRowsPerBlock;  // from one row of a thread to its next
  const Index outers = n0, depth = n1, most = blocks;
  const auto share = whole ? fb::whole_partition(outers, depth, most) : fb::partition(outers, depth, most);
  const Index begin = share.begin(block), end = share.begin(block + 1);
  const double s37 = fb::cast<double>(s36);  // adaln_backward.yaml:36
  const double s38 = fb::reciprocal(s37);  // adaln_backward.yaml:36
  const float s39 = fb::cast<float>(s38);  // inverse_width, adaln_backward.yaml:36
  // c holds the rows at hand; q the next ones, zeros where there never were any.
  float c4[kRows], q4[kRows]{};
  float c5[kRows], q5[kRows]{};
  fb::Packed<__nv_bfloat16, kVec> c3[kRows][kChunks], q3[kRows][kChunks]{};
  fb::Packed<__nv_bfloat16, kVec> c6[kRows][kChunks], q6[kRows][kChunks]{};
  const Index after = depth > 0 ? end : begin;  // the block's last row

  for (Index outer = share.outer_of(begin); begin < end && outer < outers; ++outer) {
    const Index place = outer * share.places();  // of its first row
    if (place >= end) break;
    const Index first = begin < place ? place : begin;
    const Index last = depth < end - place ? place + depth : end;
    const Index part = place < begin ? block - share.first_block(outer) : 0;
    const bool is_first = place == begin;  // of the whole outer indices of the block
    if (first == begin) {

      // The first rows.
      FUSEBUILD_UNROLL
      for (int u = 0; u < kRows; ++u) {
        const int64_t next = first + u * stride;
        if (next >= last) break;
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
    }
    float* p18 = P18 + (part * n0 + outer) * n2;
    float* p19 = P19 + (part * n0 + outer) * n2;
    fb::Vec<float, kVec> h34[kChunks];
    fb::Vec<float, kVec> a18[kChunks];
    fb::Vec<float, kVec> a19[kChunks];
    FUSEBUILD_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      a18[c] = fb::splat<kVec>(fb::Sum::identity<float>());
      a19[c] = fb::splat<kVec>(fb::Sum::identity<float>());
    }
    if (first < last) {  // else inputs may have no memory
      FUSEBUILD_UNROLL
      for (int c = 0; c < kChunks; ++c) {
        const Index col = (Index(c) * kThreadsPerRow + lane) * kVec;
        if (col >= columns) break;
        const fb::Vec<__nv_bfloat16, kVec> v0 = fb::load<kVec>(T0 + col);
        const fb::Vec<__nv_bfloat16, kVec> v2 = fb::load<kVec>(T2 + outer * n2 + col);
        FUSEBUILD_UNROLL
        for (int k = 0; k < kVec; ++k) {
          const __nv_bfloat16 t0 = v0[k];
          const __nv_bfloat16 t2 = v2[k];
          const float t11 = fb::cast<float>(t2);  // adaln_backward.yaml:19
          const float t13 = 1.0f + t11;  // adaln_backward.yaml:19
          const __nv_bfloat16 t14 = fb::cast<__nv_bfloat16>(t13);  // adaln_backward.yaml:19
          const float t15 = fb::cast<float>(t14);  // one_plus_scale, adaln_backward.yaml:19
          const float t21 = fb::cast<float>(t0);  // adaln_backward.yaml:27
          const float t34 = t21 * t15;  // adaln_backward.yaml:35
          h34[c][k] = t34;
        }
      }
    }
    if (first < last && last < end) fb::expect<kThreadsPerRow>(T2 + (outer + 1) * n2, lane, columns);

    for (int64_t top = first; top < last; top += kRows * stride) {
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

      // The next rows: in flight while those at hand are worked on.
      const bool are_left = top + kRows * stride < last;  // of this outer index
      const int64_t following = are_left ? top + kRows * stride : last;
      const int64_t until = are_left ? last : depth < after - last ? last + depth : after;
      FUSEBUILD_UNROLL
      for (int u = 0; u < kRows; ++u) {
        const int64_t next = following + u * stride;
        if (next >= until) break;
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
      fb::Vec<float, kRows> a40 = fb::splat<kRows>(fb::Sum::identity<float>());
      fb::Vec<float, kRows> a44 = fb::splat<kRows>(fb::Sum::identity<float>());
      FUSEBUILD_UNROLL
      for (int u = 0; u < kRows; ++u) {
        const int64_t r = top + u * stride;
        if (r >= last) break;
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
            const float t34 = h34[c][k];
            const __nv_bfloat16 t3 = v3[k];
            const __nv_bfloat16 t6 = v6[k];
            const float t7 = fb::cast<float>(t3);  // grad_y_f, adaln_backward.yaml:17
            const float t8 = fb::cast<float>(t6);  // adaln_backward.yaml:18
            const float t10 = t8 - t4;  // centered, adaln_backward.yaml:18
            const float t16 = t5 * t7;  // scaled_grad, adaln_backward.yaml:20
            const float t17 = t10 * t16;  // normed_grad, adaln_backward.yaml:21
            const float t35 = t34 * t16;  // grad_centered, adaln_backward.yaml:35
            const float t43 = t10 * t35;  // adaln_backward.yaml:38
            a40[u] = fb::Sum::combine(a40[u], t35);
            a44[u] = fb::Sum::combine(a44[u], t43);
            a18[c][k] = fb::Sum::combine(a18[c][k], t7);
            a19[c][k] = fb::Sum::combine(a19[c][k], t17);
          }
        }
      }
      fb::reduce_row<kThreadsPerRow, kRowsPerBlock>(phase, fb::accumulator<fb::Sum>(a40),
          fb::accumulator<fb::Sum>(a44));
      FUSEBUILD_UNROLL
      for (int u = 0; u < kRows; ++u) {
        const int64_t row = top + u * stride;
        if (row >= last) break;
        const float t4 = c4[u];  // mean
        const float t5 = c5[u];  // rstd
        const float t40 = a40[u];  // adaln_backward.yaml:37
        const float t44 = a44[u];  // adaln_backward.yaml:38
        const float t42 = t40 * s39;  // through_mean, adaln_backward.yaml:37
        const float t46 = t44 * t5;  // adaln_backward.yaml:38
        const float t47 = t46 * t5;  // adaln_backward.yaml:38
        const float t48 = t47 * s39;  // through_var, adaln_backward.yaml:38
        __nv_bfloat16* r54 = T54 + row * n2;
        FUSEBUILD_UNROLL
        for (int c = 0; c < kChunks; ++c) {
          const Index col = (Index(c) * kThreadsPerRow + lane) * kVec;
          if (col >= columns) break;
          const fb::Vec<__nv_bfloat16, kVec> v3 = fb::unpack(c3[u][c]);
          const fb::Vec<__nv_bfloat16, kVec> v6 = fb::unpack(c6[u][c]);
          fb::Vec<__nv_bfloat16, kVec> o54;
          FUSEBUILD_UNROLL
          for (int k = 0; k < kVec; ++k) {
            const float t34 = h34[c][k];
            const __nv_bfloat16 t3 = v3[k];
            const __nv_bfloat16 t6 = v6[k];
            const float t7 = fb::cast<float>(t3);  // grad_y_f, adaln_backward.yaml:17
            const float t8 = fb::cast<float>(t6);  // adaln_backward.yaml:18
            const float t10 = t8 - t4;  // centered, adaln_backward.yaml:18
            const float t16 = t5 * t7;  // scaled_grad, adaln_backward.yaml:20
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

    FUSEBUILD_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      const Index col = (Index(c) * kThreadsPerRow + lane) * kVec;
      if (col >= columns) continue;
      if (whole) {  // the block has all rows of the outer index
        float* p30 = P30 + block * n2;
        float* p32 = P32 + block * n2;
        const fb::Vec<__nv_bfloat16, kVec> v0 = fb::load<kVec>(T0 + col);
        const fb::Vec<__nv_bfloat16, kVec> v1 = fb::load<kVec>(T1 + col);
        const fb::Vec<__nv_bfloat16, kVec> v2 = fb::load<kVec>(T2 + outer * n2 + col);
        fb::Vec<float, kVec> s30 = fb::splat<kVec>(float(0));
        fb::Vec<float, kVec> s32 = fb::splat<kVec>(float(0));
        if (!is_first) s30 = fb::load<kVec>(p30 + col);
        if (!is_first) s32 = fb::load<kVec>(p32 + col);
        fb::Vec<__nv_bfloat16, kVec> o20;
        fb::Vec<__nv_bfloat16, kVec> o28;
        FUSEBUILD_UNROLL
        for (int k = 0; k < kVec; ++k) {
          const float t18 = a18[c][k];  // grad_sum, adaln_backward.yaml:24
          const float t19 = a19[c][k];  // normed_sum, adaln_backward.yaml:25
          const __nv_bfloat16 t0 = v0[k];
          const __nv_bfloat16 t1 = v1[k];
          const __nv_bfloat16 t2 = v2[k];
          const float t11 = fb::cast<float>(t2);  // adaln_backward.yaml:19
          const float t13 = 1.0f + t11;  // adaln_backward.yaml:19
          const __nv_bfloat16 t14 = fb::cast<__nv_bfloat16>(t13);  // adaln_backward.yaml:19
          const float t15 = fb::cast<float>(t14);  // one_plus_scale, adaln_backward.yaml:19
          const __nv_bfloat16 t20 = fb::cast<__nv_bfloat16>(t18);  // grad_shift, adaln_backward.yaml:26
          const float t21 = fb::cast<float>(t0);  // adaln_backward.yaml:27
          const float t23 = t21 * t19;  // adaln_backward.yaml:27
          const float t24 = fb::cast<float>(t1);  // adaln_backward.yaml:27
          const float t26 = t24 * t18;  // adaln_backward.yaml:27
          const float t27 = t23 + t26;  // adaln_backward.yaml:27
          const __nv_bfloat16 t28 = fb::cast<__nv_bfloat16>(t27);  // grad_scale, adaln_backward.yaml:27
          o20[k] = t20;
          o28[k] = t28;
          s30[k] = fb::Sum::combine(s30[k], t15 * t18);
          s32[k] = fb::Sum::combine(s32[k], t15 * t19);
        }
        fb::store_anywhere(T20 + outer * n2 + col, o20);
        fb::store_anywhere(T28 + outer * n2 + col, o28);
        fb::store(p30 + col, s30);
        fb::store(p32 + col, s32);
        continue;
      }
      fb::store(p18 + col, a18[c]);
      fb::store(p19 + col, a19[c]);
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

FUSEBUILD_ENTRY(inner_outer_persistent_b0446e6e12ad9dae)
