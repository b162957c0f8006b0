// rope.yaml, segment 0: pointwise, variant runs_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 21: 12}
// schedule: threads=128 unroll=8 runs=8 min_blocks=5
// launch: segment 0, runs_int32 on sm_90: grid ceil_div((argument 17) + (((B*S*H*D) % 8) // 1), 128), 1, 1; block 128,
//   1, 1; overlaps what is before; given x, cos, sin, y, x, D - (D // 2), B, S, H, D, D // 2, D - (D // 2), -1*(D - (D
//   // 2)), 4294967295 // max(S, 1), 4294967295 // max(H, 1), 4294967295 // max(D, 1), min(B*S*H*D, ((((S*H*D) % 8) >
//   0) + 2*(((S*H*D) % 4) > 0) + 4*(((S*H*D) % 2) > 0) + 1)*ceil_div(B, ((((S*H*D) % 8) > 0) + 2*(((S*H*D) % 4) > 0) +
//   4*(((S*H*D) % 2) > 0) + 1)*max(1, min(8, (B*S*H*D) // (4096*gpu.multiprocessors))))*S*H*D) // 8, min(B*S*H*D,
//   ((((S*H*D) % 8) > 0) + 2*(((S*H*D) % 4) > 0) + 4*(((S*H*D) % 2) > 0) + 1)*ceil_div(B, ((((S*H*D) % 8) > 0) +
//   2*(((S*H*D) % 4) > 0) + 4*(((S*H*D) % 2) > 0) + 1)*max(1, min(8, (B*S*H*D) // (4096*gpu.multiprocessors))))*S*H*D);
//   if B*S*H*D < 2146435072, aligned(x, 16), aligned(y, 16), B*S*H*D > 270336, max(B // 16, D < 192, H < 4) >= 1
// launch: segment 0, scalar_int32 on sm_90: grid ceil_div(B*S*H*D, 128*max(1, min(8, (B*S*H*D) //
//   (1024*gpu.multiprocessors)))), 1, 1; block 128, 1, 1; overlaps what is before; given x, cos, sin, y, x, D - (D //
//   2), B, S, H, D, D // 2, D - (D // 2), -1*(D - (D // 2)), 4294967295 // max(S, 1), 4294967295 // max(H, 1),
//   4294967295 // max(D, 1), 0, min(B*S*H*D, ((((S*H*D) % 8) > 0) + 2*(((S*H*D) % 4) > 0) + 4*(((S*H*D) % 2) > 0) +
//   1)*ceil_div(B, ((((S*H*D) % 8) > 0) + 2*(((S*H*D) % 4) > 0) + 4*(((S*H*D) % 2) > 0) + 1)*max(1, min(8, (B*S*H*D) //
//   (4096*gpu.multiprocessors))))*S*H*D); if B*S*H*D < 2146435072
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreads = 128;
constexpr int kVec = 1;  // neighbouring elements per access
constexpr int kUnroll = 8;  // accesses of a run
constexpr int kRun = kUnroll * kVec;

FUSEBUILD_KERNEL(kThreads, 5)
pointwise_runs_5542f3b2809c4666(
    const __nv_bfloat16* T0,  // x: bfloat16[B, S, H, D]
    const float* T1,  // cos: float[S, D]
    const float* T2,  // sin: float[S, D]
    __nv_bfloat16* __restrict__ T21,  // y: bfloat16[B, S, H, D]
    const __nv_bfloat16* X5,  // x: bfloat16[B, S, H, D], for second_place
    int64_t s13,  // D - (D // 2)
    int64_t n0,  // B
    int64_t n1,  // S
    int64_t n2,  // H
    int64_t n3,  // D
    int64_t X5_offset,  // D // 2
    int64_t X5_end3,  // D - (D // 2)
    int64_t X7_offset,  // -1*(D - (D // 2))
    int64_t n1_reciprocal,  // reciprocal of n1
    int64_t n2_reciprocal,  // reciprocal of n2
    int64_t n3_reciprocal,  // reciprocal of n3
    int64_t starts,  // threads that have runs
    int64_t step) {  // elements of them, or all there are
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const Index total = Index(n0) * Index(n1) * Index(n2) * Index(n3), whole = starts > 0 ? total - total % kRun : 0;
  const Index own = Index(fb::block_x()) * kThreads + fb::thread_x();
  if (own >= Index(starts)) {  // what is beside the runs: threads take it in turns
    const Index beside = own - Index(starts), others = Index(fb::grid_x()) * kThreads - Index(starts);
    fb::Packed<__nv_bfloat16, kVec> p0[kUnroll];
    fb::Packed<float, kVec> p1[kUnroll];
    fb::Packed<float, kVec> p2[kUnroll];
    fb::Packed<__nv_bfloat16, kVec> q5[kUnroll];
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index i = whole + (beside + u * others) * kVec;
      if (i >= total) break;
      const Index i3 = fb::divided(i, Index(n3), n3_reciprocal).remainder;
      const Index i_over_3 = fb::divided(i, Index(n3), n3_reciprocal).quotient;
      const Index i_over_2 = fb::divided(i_over_3, Index(n2), n2_reciprocal).quotient;
      const Index i1 = fb::divided(i_over_2, Index(n1), n1_reciprocal).remainder;
      p0[u] = fb::load_packed<kVec>(T0 + i);
      p1[u] = fb::load_packed<kVec>(T1 + (i1 * Index(n3) + i3));
      p2[u] = fb::load_packed<kVec>(T2 + (i1 * Index(n3) + i3));
      q5[u] = fb::load_packed<kVec>(X5 + ((i3 < Index(X5_end3) ? Index(X5_offset) : Index(X7_offset)) + i));
    }
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index i = whole + (beside + u * others) * kVec;
      if (i >= total) break;
      const Index i3 = fb::divided(i, Index(n3), n3_reciprocal).remainder;
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(p0[u]);
      const fb::Vec<float, kVec> v1 = fb::unpack(p1[u]);
      const fb::Vec<float, kVec> v2 = fb::unpack(p2[u]);
      const fb::Vec<__nv_bfloat16, kVec> x5 = fb::unpack(q5[u]);
      fb::Vec<__nv_bfloat16, kVec> v21;
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t0 = v0[k];
        const float t1 = v1[k];
        const float t2 = v2[k];
        const __nv_bfloat16 t5 = x5[k];
        const __nv_bfloat16 t7 = x5[k];
        const float t6 = -fb::cast<float>(t5);  // rope.yaml:10
        const float t8 = fb::cast<float>(t7);  // first_cast, rope.yaml:10
        const int64_t t11 = int64_t(i3);  // rope.yaml:10
        const bool t14 = t11 < s13;  // rope.yaml:10
        const float t15 = fb::where(t14, t6, t8);  // rope.yaml:10
        const float t18 = fb::cast<float>(t0) * t1;  // rope.yaml:13
        const float t19 = t15 * t2;  // rope.yaml:13
        const float t20 = t18 + t19;  // y, rope.yaml:13
        const __nv_bfloat16 t21 = fb::cast<__nv_bfloat16>(t20);  // rope.yaml:15
        v21[k] = t21;
      }
      fb::store(T21 + i, v21);
    }
    return;
  }

  // Where the elements are, and what all runs of the thread read.
  const Index place = own * kRun;
  Index i3 = fb::divided(place, Index(n3), n3_reciprocal).remainder;
  const Index place_over_3 = fb::divided(place, Index(n3), n3_reciprocal).quotient;
  Index i2 = fb::divided(place_over_3, Index(n2), n2_reciprocal).remainder;
  const Index place_over_2 = fb::divided(place_over_3, Index(n2), n2_reciprocal).quotient;
  Index i1 = fb::divided(place_over_2, Index(n1), n1_reciprocal).remainder;
  fb::Packed<float, kVec> p1[kUnroll];
  fb::Packed<float, kVec> p2[kUnroll];
  Index c3[kUnroll];
  FUSEBUILD_UNROLL
  for (int u = 0; u < kUnroll; ++u) {
    p1[u] = fb::load_packed<kVec>(T1 + (i1 * Index(n3) + i3));
    p2[u] = fb::load_packed<kVec>(T2 + (i1 * Index(n3) + i3));
    c3[u] = i3;
    fb::count_on(i1, fb::count_on(i2, fb::count_on(i3, kVec, Index(n3)), Index(n2)), Index(n1));
  }
  for (Index left = whole - place; left > 0; left -= Index(step)) {
    const Index run = whole - left;
    const fb::Vec<__nv_bfloat16, kRun> v0 = fb::load<kRun>(T0 + run);
    fb::Packed<__nv_bfloat16, kVec> q5[kUnroll];
    fb::Vec<__nv_bfloat16, kRun> v21;
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index i = run + u * kVec;
      const Index i3 = c3[u];
      q5[u] = fb::load_packed<kVec>(X5 + ((i3 < Index(X5_end3) ? Index(X5_offset) : Index(X7_offset)) + i));
      const fb::Vec<float, kVec> v1 = fb::unpack(p1[u]);
      const fb::Vec<float, kVec> v2 = fb::unpack(p2[u]);
      const fb::Vec<__nv_bfloat16, kVec> x5 = fb::unpack(q5[u]);
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const float t1 = v1[k];
        const float t2 = v2[k];
        const __nv_bfloat16 t5 = x5[k];
        const __nv_bfloat16 t7 = x5[k];
        const __nv_bfloat16 t0 = v0[u * kVec + k];
        const float t6 = -fb::cast<float>(t5);  // rope.yaml:10
        const float t8 = fb::cast<float>(t7);  // first_cast, rope.yaml:10
        const int64_t t11 = int64_t(i3);  // rope.yaml:10
        const bool t14 = t11 < s13;  // rope.yaml:10
        const float t15 = fb::where(t14, t6, t8);  // rope.yaml:10
        const float t18 = fb::cast<float>(t0) * t1;  // rope.yaml:13
        const float t19 = t15 * t2;  // rope.yaml:13
        const float t20 = t18 + t19;  // y, rope.yaml:13
        const __nv_bfloat16 t21 = fb::cast<__nv_bfloat16>(t20);  // rope.yaml:15
        v21[u * kVec + k] = t21;
      }
    }
    fb::store(T21 + run, v21);
  }
}

FUSEBUILD_ENTRY(pointwise_runs_5542f3b2809c4666)
