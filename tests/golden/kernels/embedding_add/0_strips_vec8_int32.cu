// embedding_add.yaml, segment 0: pointwise, variant strips_vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 6: 5}
// schedule: threads=128 vectors=8 min_blocks=10
// launch: segment 0, strips_vec8_int32 on sm_90: grid ceil_div(B*S*argument 12, 128), 1, 1; block 128, 1, 1; overlaps
//   what is before; given positions, ids, y, table, B, S, D, V, D, 4294967295 // max(S, 1), V*D, ceil_div(ceil_div(D -
//   ((D % 2) == 0) - 2*((D % 4) == 0) - 4*((D % 8) == 0) + 7, 8), max(1, min(8, ceil_div(D - ((D % 2) == 0) - 2*((D %
//   4) == 0) - 4*((D % 8) == 0) + 7, 8) // (8*(ceil_div(D - ((D % 2) == 0) - 2*((D % 4) == 0) - 4*((D % 8) == 0) + 7,
//   8) >= 32) + 8), (B*S*D) // (24576*gpu.multiprocessors)))), 4294967295 // max(ceil_div(ceil_div(D - ((D % 2) == 0) -
//   2*((D % 4) == 0) - 4*((D % 8) == 0) + 7, 8), max(1, min(8, ceil_div(D - ((D % 2) == 0) - 2*((D % 4) == 0) - 4*((D %
//   8) == 0) + 7, 8) // (8*(ceil_div(D - ((D % 2) == 0) - 2*((D % 4) == 0) - 4*((D % 8) == 0) + 7, 8) >= 32) + 8),
//   (B*S*D) // (24576*gpu.multiprocessors)))), 1); if B*S*D < 2146435072, V < 2146435072, aligned(y, 16),
//   aligned(positions, 16), aligned(table, 16), D >= 32, max((B*S*D) // 262144, D // 256) >= 1
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreads = 128;
constexpr int kVec = 8;  // neighbouring columns per access

FUSEBUILD_KERNEL(kThreads, 10)
pointwise_strips_9bc97f258e0979e3(
    const __nv_bfloat16* T1,  // positions: bfloat16[S, D]
    const int64_t* T2,  // ids: int64[B, S]
    __nv_bfloat16* __restrict__ T6,  // y: bfloat16[B, S, D]
    const __nv_bfloat16* X3,  // table: bfloat16[V, D], for t3
    int64_t n0,  // B
    int64_t n1,  // S
    int64_t n2,  // D
    int64_t X3_size,  // V
    int64_t X3_stride,  // D
    int64_t n1_reciprocal,  // reciprocal of n1
    int64_t X3_elements,  // V*D
    int64_t lanes,  // threads along a row
    int64_t lanes_reciprocal) {  // reciprocal of lanes
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const Index rows = Index(n0) * Index(n1), columns = Index(n2);
  const fb::Divided own = fb::divided(Index(fb::block_x()) * kThreads + fb::thread_x(), Index(lanes), lanes_reciprocal);
  const bool is_there = own.quotient < rows;  // a warp's lanes go on together
  const Index row = is_there ? own.quotient : rows - 1, number = is_there ? own.remainder : Index(lanes);
  const Index i1 = fb::divided(row, Index(n1), n1_reciprocal).remainder;
  const int64_t t2 = T2[row];  // ids
  const Index start = row * columns;  // of outputs' rows: vectors lie where memory is aligned
  const bool has_one = Index(lanes) * kVec >= columns, has_next = row + 1 < rows;
  const fb::JoinedVector<kVec> joined(start, columns, Index(lanes), number, has_next);
  Index i = number * kVec - fb::shift_of<kVec>(start);
  do {
    const Index o1 = (i1 * Index(n2) + i);
    const fb::WordsAround<__nv_bfloat16, kVec> w1 =
        fb::load_words_near<kVec>(T1, o1, Index(((Index(n1) - 1)) * Index(n2) + (Index(n2) - 1) + 1));
    const int64_t o3 = i + fb::near_inside(t2, Index(X3_size)) * X3_stride;
    const fb::WordsAround<__nv_bfloat16, kVec> w3 = fb::load_words_near<kVec>(X3, o3, int64_t(X3_elements));
    const fb::Vec<__nv_bfloat16, kVec> v1 = fb::unpack(fb::cut_around(w1, o1));
    const fb::Vec<__nv_bfloat16, kVec> x3 = fb::unpack(fb::cut_around(w3, o3));
    fb::Vec<__nv_bfloat16, kVec> v6;
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const __nv_bfloat16 t1 = v1[k];
      const __nv_bfloat16 t3 = x3[k];
      const float t5 = fb::cast<float>(t3) + fb::cast<float>(t1);  // y, embedding_add.yaml:8
      const __nv_bfloat16 t6 = fb::cast<__nv_bfloat16>(t5);  // embedding_add.yaml:10
      v6[k] = t6;
    }
    if (has_one) joined.store(T6 + (start + i), v6);
    else if (i < columns) fb::store_strip(T6 + (start + i), v6, i, columns);
    i += Index(lanes) * kVec;
  } while (i < columns);
}

FUSEBUILD_ENTRY(pointwise_strips_9bc97f258e0979e3)
