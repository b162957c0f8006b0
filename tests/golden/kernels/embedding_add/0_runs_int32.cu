// embedding_add.yaml, segment 0: pointwise, variant runs_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 6: 5}
// schedule: threads=128 unroll=8 runs=8 min_blocks=6
// launch: segment 0, runs_int32 on sm_90: grid ceil_div((argument 12) + (((B*S*D) % 8) // 1), 128), 1, 1; block 128, 1,
//   1; overlaps what is before; given positions, ids, y, table, B, S, D, V, D, 4294967295 // max(S, 1), 4294967295 //
//   max(D, 1), min(B*S*D, ((((S*D) % 8) > 0) + 2*(((S*D) % 4) > 0) + 4*(((S*D) % 2) > 0) + 1)*ceil_div(B, ((((S*D) % 8)
//   > 0) + 2*(((S*D) % 4) > 0) + 4*(((S*D) % 2) > 0) + 1)*max(1, min(8, (B*S*D) // (4096*gpu.multiprocessors))))*S*D)
//   // 8, ((((S*D) % 8) > 0) + 2*(((S*D) % 4) > 0) + 4*(((S*D) % 2) > 0) + 1)*ceil_div(B, ((((S*D) % 8) > 0) +
//   2*(((S*D) % 4) > 0) + 4*(((S*D) % 2) > 0) + 1)*max(1, min(8, (B*S*D) // (4096*gpu.multiprocessors)))), min(B*S*D,
//   ((((S*D) % 8) > 0) + 2*(((S*D) % 4) > 0) + 4*(((S*D) % 2) > 0) + 1)*ceil_div(B, ((((S*D) % 8) > 0) + 2*(((S*D) % 4)
//   > 0) + 4*(((S*D) % 2) > 0) + 1)*max(1, min(8, (B*S*D) // (4096*gpu.multiprocessors))))*S*D); if B*S*D < 2146435072,
//   V < 2146435072, aligned(y, 16), B*S*D > 8650752, D >= 8, D < 256
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreads = 128;
constexpr int kVec = 1;  // neighbouring elements per access
constexpr int kUnroll = 8;  // accesses of a run
constexpr int kRun = kUnroll * kVec;

FUSEBUILD_KERNEL(kThreads, 6)
pointwise_runs_a22f4abeb1615864(
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
    int64_t n2_reciprocal,  // reciprocal of n2
    int64_t starts,  // threads that have runs
    int64_t batches,  // points of the first axis from a run to the next one
    int64_t step) {  // elements of them, or all there are
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const Index total = Index(n0) * Index(n1) * Index(n2), whole = starts > 0 ? total - total % kRun : 0;
  const Index own = Index(fb::block_x()) * kThreads + fb::thread_x();
  if (own >= Index(starts)) {  // what is beside the runs: threads take it in turns
    const Index beside = own - Index(starts), others = Index(fb::grid_x()) * kThreads - Index(starts);
    fb::Packed<__nv_bfloat16, kVec> p1[kUnroll];
    fb::Packed<__nv_bfloat16, kVec> q3[kUnroll];
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index i = whole + (beside + u * others) * kVec;
      if (i >= total) break;
      const Index i2 = fb::divided(i, Index(n2), n2_reciprocal).remainder;
      const Index i_over_2 = fb::divided(i, Index(n2), n2_reciprocal).quotient;
      const Index i1 = fb::divided(i_over_2, Index(n1), n1_reciprocal).remainder;
      p1[u] = fb::load_packed<kVec>(T1 + (i1 * Index(n2) + i2));
      const int64_t t2 = T2[i_over_2];  // ids
      q3[u] = fb::load_packed<kVec>(X3 + i2 + fb::near_inside(t2, Index(X3_size)) * X3_stride);
    }
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index i = whole + (beside + u * others) * kVec;
      if (i >= total) break;
      const fb::Vec<__nv_bfloat16, kVec> v1 = fb::unpack(p1[u]);
      const fb::Vec<__nv_bfloat16, kVec> x3 = fb::unpack(q3[u]);
      fb::Vec<__nv_bfloat16, kVec> v6;
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t1 = v1[k];
        const __nv_bfloat16 t3 = x3[k];
        const float t5 = fb::cast<float>(t3) + fb::cast<float>(t1);  // y, embedding_add.yaml:8
        const __nv_bfloat16 t6 = fb::cast<__nv_bfloat16>(t5);  // embedding_add.yaml:10
        v6[k] = t6;
      }
      fb::store(T6 + i, v6);
    }
    return;
  }

  // Where the elements are, and what all runs of the thread read.
  const Index place = own * kRun;
  Index i2 = fb::divided(place, Index(n2), n2_reciprocal).remainder;
  const Index place_over_2 = fb::divided(place, Index(n2), n2_reciprocal).quotient;
  Index i1 = fb::divided(place_over_2, Index(n1), n1_reciprocal).remainder;
  Index i0 = fb::divided(place_over_2, Index(n1), n1_reciprocal).quotient;
  fb::Packed<__nv_bfloat16, kVec> p1[kUnroll];
  Index o2[kUnroll];
  Index c2[kUnroll];
  bool later[kUnroll];  // whether an access is of the next row
  FUSEBUILD_UNROLL
  for (int u = 0; u < kUnroll; ++u) {
    p1[u] = fb::load_packed<kVec>(T1 + (i1 * Index(n2) + i2));
    o2[u] = (i0 * Index(n1) + i1);
    fb::forget_origin(o2[u]);  // or it is computed for each run
    c2[u] = i2;
    later[u] = i2 < u * kVec;
    i0 += fb::count_on(i1, fb::count_on(i2, kVec, Index(n2)), Index(n1));
  }
  for (Index left = whole - place; left > 0; left -= Index(step)) {
    const Index run = whole - left;
    fb::Packed<__nv_bfloat16, kVec> q3[kUnroll];
    fb::Vec<__nv_bfloat16, kRun> v6;
    const __nv_bfloat16* r3[2];
    FUSEBUILD_UNROLL
    for (int which = 0; which < 2; ++which) {
      const int u = which * (kUnroll - 1);  // of the first row that the run is of, and of the last one
      const Index i2 = c2[u];
      const int64_t t2 = T2[o2[u]];  // ids
      r3[which] = X3 + i2 + fb::near_inside(t2, Index(X3_size)) * X3_stride - u * kVec;
    }
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      q3[u] = fb::load_packed<kVec>((later[u] ? r3[1] : r3[0]) + u * kVec);
      const fb::Vec<__nv_bfloat16, kVec> v1 = fb::unpack(p1[u]);
      const fb::Vec<__nv_bfloat16, kVec> x3 = fb::unpack(q3[u]);
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t1 = v1[k];
        const __nv_bfloat16 t3 = x3[k];
        const float t5 = fb::cast<float>(t3) + fb::cast<float>(t1);  // y, embedding_add.yaml:8
        const __nv_bfloat16 t6 = fb::cast<__nv_bfloat16>(t5);  // embedding_add.yaml:10
        v6[u * kVec + k] = t6;
      }
    }
    fb::store(T6 + run, v6);
    T2 += int64_t(batches) * Index(n1);
  }
}

FUSEBUILD_ENTRY(pointwise_runs_a22f4abeb1615864)
