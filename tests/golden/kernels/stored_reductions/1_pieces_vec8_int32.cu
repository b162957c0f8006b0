// stored_reductions.yaml, segment 1: storing_reduction, variant pieces_vec8_int32
// segment fids to original fids: {0: 0, 4: 18, 5: 32}
// schedule: threads=128 unroll=8 is_split=True in_pieces=True can_cluster=False stored=[5]
// launch: segment 1, pieces_vec8_int32 1 of 2 on sm_90: grid ceil_div(C*max(1, 2*(8*B*((S + 14) // 8)*(3*(8*C*B*((S +
//   14) // 8) <= 2048*gpu.multiprocessors) + 1) > 24), 4*(8*B*((S + 14) // 8)*(3*(8*C*B*((S + 14) // 8) <=
//   2048*gpu.multiprocessors) + 1) > 64), 8*(8*B*((S + 14) // 8)*(3*(8*C*B*((S + 14) // 8) <= 2048*gpu.multiprocessors)
//   + 1) > 128*((C >= 16384) + 1)), 16*(8*B*((S + 14) // 8)*(3*(8*C*B*((S + 14) // 8) <= 2048*gpu.multiprocessors) + 1)
//   > 512*((C >= 16384) + 1)), 32*(8*B*((S + 14) // 8)*(3*(8*C*B*((S + 14) // 8) <= 2048*gpu.multiprocessors) + 1) >
//   1024*((C >= 16384) + 1)), 64*(8*B*((S + 14) // 8)*(3*(8*C*B*((S + 14) // 8) <= 2048*gpu.multiprocessors) + 1) >
//   2048), 128*(8*B*((S + 14) // 8)*(3*(8*C*B*((S + 14) // 8) <= 2048*gpu.multiprocessors) + 1) > 4096)), 128),
//   argument 9, 1; block 128, 1, 1; overlaps what is before; given x, e_ends, e, slot 1 of max(4*S*max(1, min(max(B >
//   1024, ceil_div(C*S, 8) > 4*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, B))), (B <= 384)*max(1, min(32,
//   3072 // max(1, B)))))*ceil_div(B*C*S, 8192*max(1, ceil_div(ceil_div(C*S, 8), 32))), max((4*gpu.multiprocessors) //
//   max(1, ceil_div(ceil_div(C*S, 8), 32)), 4*(ceil_div(ceil_div(C*S, 8), 256) > 4*gpu.multiprocessors))))*C, 4*max(1,
//   min((B*S > 24576)*ceil_div(B*S, 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors))))*C, 4*max(1, min((8*B*((S + 14) // 8) > 24576)*ceil_div(8*B*((S + 14) // 8), 8192),
//   max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((B*S >
//   3072)*ceil_div(B*S, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C) bytes, B,
//   C, S, (8*B*((S + 14) // 8)*(3*(8*C*B*((S + 14) // 8) <= 2048*gpu.multiprocessors) + 1) > 24) + (8*B*((S + 14) //
//   8)*(3*(8*C*B*((S + 14) // 8) <= 2048*gpu.multiprocessors) + 1) > 64) + (8*B*((S + 14) // 8)*(3*(8*C*B*((S + 14) //
//   8) <= 2048*gpu.multiprocessors) + 1) > 128*((C >= 16384) + 1)) + (8*B*((S + 14) // 8)*(3*(8*C*B*((S + 14) // 8) <=
//   2048*gpu.multiprocessors) + 1) > 512*((C >= 16384) + 1)) + (8*B*((S + 14) // 8)*(3*(8*C*B*((S + 14) // 8) <=
//   2048*gpu.multiprocessors) + 1) > 1024*((C >= 16384) + 1)) + (8*B*((S + 14) // 8)*(3*(8*C*B*((S + 14) // 8) <=
//   2048*gpu.multiprocessors) + 1) > 2048) + (8*B*((S + 14) // 8)*(3*(8*C*B*((S + 14) // 8) <=
//   2048*gpu.multiprocessors) + 1) > 4096), max(1, min((8*B*((S + 14) // 8) > 24576)*ceil_div(8*B*((S + 14) // 8),
//   8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors)))); if B*C*S < 2146435072, 8*B*((S +
//   14) // 8) < 1073741824, aligned(x, 16), aligned(e, 16), B*S < 1073741824
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreads = 128;
constexpr int kVec = 8;  // neighbouring elements per access
constexpr int kUnroll = 8;  // accesses in flight per thread and tensor

FUSEBUILD_KERNEL(kThreads, 4)
reduction_inner_8336f026ac4c0b1b(
    const __nv_bfloat16* T0,  // x: bfloat16[B, C, S]
    float* __restrict__ T4,  // e_ends: float[C]
    __nv_bfloat16* __restrict__ T5,  // e: bfloat16[B, C, S]
    float* __restrict__ P4,  // partial results of e_ends
    int64_t n0,  // B
    int64_t n1,  // C
    int64_t n2,  // S
    int64_t row_shift,  // of the threads that share a row
    int64_t splits) {  // blocks that share a reduction
  fb::let_next_kernel_start();  // it waits for the end of this one
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const int64_t rows = n1;
  const Index columns = n2;
  const Index pieces = n0;  // of a row, each with so many columns
  const Index padded = (columns + 2 * kVec - 2) / kVec * kVec;  // elements of the aligned vectors around one, at most
  const Index all = rows, total = pieces * all * columns;  // rows and elements
  const int width = 1 << row_shift;  // threads that share a row
  const int lane = fb::thread_x() & (width - 1);
  const int64_t wanted = int64_t(fb::block_x()) * (kThreads >> row_shift) + (fb::thread_x() >> row_shift);
  const bool active = wanted < rows;  // the last block's spare threads repeat a row and store nothing
  const int64_t row = active ? wanted : rows - 1;
  const int split = fb::block_y();  // of the blocks that take a row's vectors in turns

  fb::LongSum w4;
  if (active) {  // spare threads would store once more what others do
    const Index step = width * kVec;
    for (Index first = (Index(split) * (kUnroll * width) + lane) * kVec; first < pieces * padded;
        first += Index(splits) * kUnroll * step) {
      fb::Packed<__nv_bfloat16, kVec> p0[kUnroll];
      FUSEBUILD_UNROLL
      for (int u = 0; u < kUnroll; ++u) {
        const Index place = first + u * step;
        if (place >= pieces * padded) break;
        const Index piece = unsigned(place) / unsigned(padded);
        const Index begin = (piece * all + Index(row)) * columns;
        const Index col = place - piece * padded - fb::shift_of<kVec>(begin);
        if (col >= columns) continue;  // this piece has one vector less
        p0[u] = fb::load_packed_up_to<kVec>(T0 + (begin + col), total - (begin + col));
      }
      FUSEBUILD_UNROLL
      for (int u = 0; u < kUnroll; ++u) {
        const Index place = first + u * step;
        if (place >= pieces * padded) break;
        const Index piece = unsigned(place) / unsigned(padded);
        const Index begin = (piece * all + Index(row)) * columns;
        const Index col = place - piece * padded - fb::shift_of<kVec>(begin);
        if (col >= columns) continue;  // this piece has one vector less
        const unsigned inside = fb::inside_of<kVec>(col, columns);  // bit k: column col + k is of this row
        const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(p0[u]);
        fb::Vec<__nv_bfloat16, kVec> o5;
        fb::Vec<float, kVec> e4 = fb::splat<kVec>(0.0f);
        FUSEBUILD_UNROLL
        for (int k = 0; k < kVec; ++k) {
          const __nv_bfloat16 t0 = v0[k];
          const float t2 = fb::cast<float>(t0) + 0.5f;  // stored_reductions.yaml:16
          const float t3 = fb::tanh(t2);  // e, stored_reductions.yaml:16
          const __nv_bfloat16 t5 = fb::cast<__nv_bfloat16>(t3);  // stored_reductions.yaml:26
          o5[k] = t5;
          if (fb::is_inside(inside, k)) e4[k] = t3;
        }
        fb::store_inside(T5 + (begin + col), o5, inside);
        w4.add(e4);
      }
    }
  }
  float a4 = w4.total();
  fb::reduce_row_of<kThreads>(width, fb::accumulator<fb::Sum>(a4));
  if (splits > 1) {  // reduction_finish combines what they leave in order
    if (!active || lane != 0) return;
    P4[split * n1 + row] = a4;
    return;
  }
  const float t4 = a4;  // e_ends, stored_reductions.yaml:17
  fb::store_rows_of<kThreads>(row_shift, rows, fb::row_result(T4, t4));
}

FUSEBUILD_ENTRY(reduction_inner_8336f026ac4c0b1b)
