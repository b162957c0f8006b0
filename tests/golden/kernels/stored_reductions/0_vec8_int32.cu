// stored_reductions.yaml, segment 0: storing_reduction, variant vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 4, 13: 14, 14: 31}
// schedule: threads=128 unroll=8 is_split=True in_pieces=False can_cluster=True stored=[14]
// launch: segment 0, vec8_int32 1 of 2 on sm_90: grid ceil_div(max(1, 2*(B*C*S*(3*(B*C*S <= 2048*gpu.multiprocessors) +
//   1) > 24), 4*(B*C*S*(3*(B*C*S <= 2048*gpu.multiprocessors) + 1) > 64), 8*(B*C*S*(3*(B*C*S <=
//   2048*gpu.multiprocessors) + 1) > 128), 16*(B*C*S*(3*(B*C*S <= 2048*gpu.multiprocessors) + 1) > 512),
//   32*(B*C*S*(3*(B*C*S <= 2048*gpu.multiprocessors) + 1) > 1024), 64*(B*C*S*(3*(B*C*S <= 2048*gpu.multiprocessors) +
//   1) > 2048), 128*(B*C*S*(3*(B*C*S <= 2048*gpu.multiprocessors) + 1) > 4096)), 128), argument 11, 1; block 128, 1, 1;
//   clusters of 7*(B*C*S > 16384)*(B*C*S <= 131072)*(B*C*S <= 4194304) + 1; overlaps what is before; given x, gain,
//   scale, scale_next, y, slot 0 of max(4*max(1, min((B*C*S > 24576)*ceil_div(B*C*S, 8192), max((8*gpu.multiprocessors)
//   // 1, 4*(1 > 8*gpu.multiprocessors)))), 4*max(1, min((B*C*S > 3072)*ceil_div(B*C*S, 1024),
//   max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors))))) bytes, B*C, S, (B*C*S*(3*(B*C*S <=
//   2048*gpu.multiprocessors) + 1) > 24) + (B*C*S*(3*(B*C*S <= 2048*gpu.multiprocessors) + 1) > 64) + (B*C*S*(3*(B*C*S
//   <= 2048*gpu.multiprocessors) + 1) > 128) + (B*C*S*(3*(B*C*S <= 2048*gpu.multiprocessors) + 1) > 512) +
//   (B*C*S*(3*(B*C*S <= 2048*gpu.multiprocessors) + 1) > 1024) + (B*C*S*(3*(B*C*S <= 2048*gpu.multiprocessors) + 1) >
//   2048) + (B*C*S*(3*(B*C*S <= 2048*gpu.multiprocessors) + 1) > 4096), 7*(B*C*S > 16384)*(B*C*S <= 131072)*(B*C*S <=
//   4194304) + 1, 8*(B*C*S > 16384)*(B*C*S <= 131072)*(B*C*S <= 4194304) + max(1, min((B*C*S > 24576)*ceil_div(B*C*S,
//   8192), max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors))))*((B*C*S > 16384)*(B*C*S <= 131072)*(B*C*S
//   <= 4194304) == 0); if (S % 8) == 0, aligned(x, 16), aligned(gain, 16), aligned(y, 16), B*C*S < 1073741824
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreads = 128;
constexpr int kVec = 8;  // neighbouring elements per access
constexpr int kUnroll = 8;  // accesses in flight per thread and tensor

FUSEBUILD_KERNEL(kThreads, 4)
reduction_inner_2f858c36eec2b3c9(
    const __nv_bfloat16* T0,  // x: bfloat16[B, C, S]
    const __half* T1,  // gain: half[S]
    const float* T2,  // scale: float[]
    float* T13,  // scale_next: float[]
    __half* T14,  // y: half[B, C, S]
    float* __restrict__ P9,  // partial results of y_max
    int64_t n0,  // B*C
    int64_t n1,  // S
    int64_t row_shift,  // of the threads that share a row
    int64_t cluster,  // blocks that share a reduction and run together
    int64_t splits) {  // blocks that share a reduction
  fb::let_next_kernel_start();  // it waits for the end of this one
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const int64_t rows = 1;
  const Index columns = n0 * n1;
  const int width = 1 << row_shift;  // threads that share a row
  const int lane = fb::thread_x() & (width - 1);
  const int64_t wanted = int64_t(fb::block_x()) * (kThreads >> row_shift) + (fb::thread_x() >> row_shift);
  const bool active = wanted < rows;  // the last block's spare threads repeat a row and store nothing
  const int split = fb::block_y();  // of the blocks that take a row's vectors in turns
  const float t2 = T2[0];  // scale
  const __nv_bfloat16* r0 = T0;
  const __half* r1 = T1;
  __half* r14 = T14;

  float a9 = fb::Max::identity<float>();
  if (active) {  // spare threads would store once more what others do
    const Index step = width * kVec;
    for (Index first = (Index(split) * (kUnroll * width) + lane) * kVec; first < columns;
        first += Index(splits) * kUnroll * step) {
      fb::Packed<__nv_bfloat16, kVec> p0[kUnroll];
      fb::Packed<__half, kVec> p1[kUnroll];
      FUSEBUILD_UNROLL
      for (int u = 0; u < kUnroll; ++u) {
        const Index col = first + u * step;
        if (col >= columns) break;
        const Index i1 = col % Index(n1);
        p0[u] = fb::load_packed<kVec>(r0 + col);
        p1[u] = fb::load_packed<kVec>(r1 + i1);
      }
      FUSEBUILD_UNROLL
      for (int u = 0; u < kUnroll; ++u) {
        const Index col = first + u * step;
        if (col >= columns) break;
        const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(p0[u]);
        const fb::Vec<__half, kVec> v1 = fb::unpack(p1[u]);
        fb::Vec<__half, kVec> o14;
        FUSEBUILD_UNROLL
        for (int k = 0; k < kVec; ++k) {
          const __nv_bfloat16 t0 = v0[k];
          const __half t1 = v1[k];
          const float t4 = fb::cast<float>(t0) * fb::cast<float>(t1);  // stored_reductions.yaml:13
          const float t5 = fb::silu(t4);  // stored_reductions.yaml:13
          const float t7 = t5 * t2;  // y, stored_reductions.yaml:13
          const float t8 = fb::abs(t7);  // stored_reductions.yaml:14
          const __half t14 = fb::cast<__half>(t7);  // stored_reductions.yaml:24
          o14[k] = t14;
          a9 = fb::Max::combine(a9, t8);
        }
        fb::store(r14 + col, o14);
      }
    }
  }
  fb::reduce_row_of<kThreads>(width, fb::accumulator<fb::Max>(a9));
  if (cluster == 1) {  // first: what most calls run through lies together
    if (splits > 1) {  // reduction_finish combines what they leave in order
      if (!active || lane != 0) return;
      P9[split] = a9;
      return;
    }
    if (!active || lane != 0) return;

    const float t9 = a9;  // y_max, stored_reductions.yaml:14
    const float t11 = fb::maximum(t9, 1e-12f);  // stored_reductions.yaml:15
    const float t13 = 448.0f / t11;  // scale_next, stored_reductions.yaml:15
    T13[0] = t13;
    return;
  }
  if (!fb::reduce_in_first_block<kThreads, 1>(0, lane, 1, fb::accumulator<fb::Max>(a9))) return;
  if (!active || lane != 0) return;

  const float t9 = a9;  // y_max, stored_reductions.yaml:14
  const float t11 = fb::maximum(t9, 1e-12f);  // stored_reductions.yaml:15
  const float t13 = 448.0f / t11;  // scale_next, stored_reductions.yaml:15
  T13[0] = t13;
}

FUSEBUILD_ENTRY(reduction_inner_2f858c36eec2b3c9)
