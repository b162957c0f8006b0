// bshd_to_bhsd.yaml, segment 0: pointwise, variant strips_vec8_int32
// segment fids to original fids: {0: 0, 1: 1}
// schedule: threads=128 vectors=8 min_blocks=12
// launch: segment 0, strips_vec8_int32 on sm_90: grid ceil_div(B*H*S*argument 12, 128), 1, 1; block 128, 1, 1; overlaps
//   what is before; given x, y, B, H, S, D, S*H*D, D, H*D, 4294967295 // max(H, 1), 4294967295 // max(S, 1),
//   ceil_div(ceil_div(D - ((D % 2) == 0) - 2*((D % 4) == 0) - 4*((D % 8) == 0) + 7, 8), max(1, min(8, ceil_div(D - ((D
//   % 2) == 0) - 2*((D % 4) == 0) - 4*((D % 8) == 0) + 7, 8) // 16, (B*H*S*D) // (49152*gpu.multiprocessors)))),
//   4294967295 // max(ceil_div(ceil_div(D - ((D % 2) == 0) - 2*((D % 4) == 0) - 4*((D % 8) == 0) + 7, 8), max(1, min(8,
//   ceil_div(D - ((D % 2) == 0) - 2*((D % 4) == 0) - 4*((D % 8) == 0) + 7, 8) // 16, (B*H*S*D) //
//   (49152*gpu.multiprocessors)))), 1); if B*H*S*D < 2146435072, aligned(y, 16), aligned(x, 16), D >= 32
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreads = 128;
constexpr int kVec = 8;  // neighbouring columns per access

FUSEBUILD_KERNEL(kThreads, 12)
pointwise_strips_1a0a27d69ba202f7(
    const __nv_bfloat16* T0,  // x: bfloat16[B, S, H, D]
    __nv_bfloat16* __restrict__ T1,  // y: bfloat16[B, H, S, D]
    int64_t n0,  // B
    int64_t n1,  // H
    int64_t n2,  // S
    int64_t n3,  // D
    int64_t T0_stride0,  // stride of dim 0, in elements
    int64_t T0_stride1,  // stride of dim 2, in elements
    int64_t T0_stride2,  // stride of dim 1, in elements
    int64_t n1_reciprocal,  // reciprocal of n1
    int64_t n2_reciprocal,  // reciprocal of n2
    int64_t lanes,  // threads along a row
    int64_t lanes_reciprocal) {  // reciprocal of lanes
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const Index rows = Index(n0) * Index(n1) * Index(n2), columns = Index(n3);
  const fb::Divided own = fb::divided(Index(fb::block_x()) * kThreads + fb::thread_x(), Index(lanes), lanes_reciprocal);
  const bool is_there = own.quotient < rows;  // a warp's lanes go on together
  const Index row = is_there ? own.quotient : rows - 1, number = is_there ? own.remainder : Index(lanes);
  const Index i2 = fb::divided(row, Index(n2), n2_reciprocal).remainder;
  const Index row_over_2 = fb::divided(row, Index(n2), n2_reciprocal).quotient;
  const Index i1 = fb::divided(row_over_2, Index(n1), n1_reciprocal).remainder;
  const Index i0 = fb::divided(row_over_2, Index(n1), n1_reciprocal).quotient;
  const Index start = row * columns;  // of outputs' rows: vectors lie where memory is aligned
  const bool has_one = Index(lanes) * kVec >= columns, has_next = row + 1 < rows;
  const fb::JoinedVector<kVec> joined(start, columns, Index(lanes), number, has_next);
  Index i = number * kVec - fb::shift_of<kVec>(start);
  do {
    const Index o0 = (i0 * Index(T0_stride0) + i1 * Index(T0_stride1) + i2 * Index(T0_stride2) + i);
    const fb::WordsAround<__nv_bfloat16, kVec> w0 =
        fb::load_words_near<kVec>(T0, o0,
        Index(
        (Index(n0) - 1) * Index(T0_stride0) + (Index(n1) - 1) * Index(T0_stride1) + (Index(n2) - 1) * Index(
        T0_stride2) + (Index(n3) - 1) + 1));
    const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(fb::cut_around(w0, o0));
    fb::Vec<__nv_bfloat16, kVec> v1;
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const __nv_bfloat16 t0 = v0[k];
      v1[k] = t0;
    }
    if (has_one) joined.store(T1 + (start + i), v1);
    else if (i < columns) fb::store_strip(T1 + (start + i), v1, i, columns);
    i += Index(lanes) * kVec;
  } while (i < columns);
}

FUSEBUILD_ENTRY(pointwise_strips_1a0a27d69ba202f7)
