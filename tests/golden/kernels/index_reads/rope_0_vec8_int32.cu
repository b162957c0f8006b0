// rope.yaml, segment 0: pointwise, variant vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 19: 10}
// schedule: threads=128 unroll=1 min_blocks=8
// launch: segment 0, vec8_int32 on sm_90: grid ceil_div(M*D, 1024), 1, 1; block 128, 1, 1; overlaps what is before;
//   given x, c, s, y, x, D - (D // 2), M, D, D // 2, D - (D // 2), -1*(D - (D // 2)), 4294967295 // max(D, 1); if M*D <
//   2146435072, (D % 8) == 0, (max(D - (D // 2), -1*(D - (D // 2))) % 8) == 0, ((D // 2) % 8) == 0, aligned(x, 16),
//   aligned(c, 16), aligned(s, 16), aligned(y, 16)
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreads = 128;
constexpr int kVec = 8;  // neighbouring elements per access
constexpr int kUnroll = 1;  // accesses in flight per thread and tensor

FUSEBUILD_KERNEL(kThreads, 8)
pointwise_599bc392766b5c67(
    const __nv_bfloat16* T0,  // x: bfloat16[M, D]
    const float* T1,  // c: float[M, D]
    const float* T2,  // s: float[M, D]
    __nv_bfloat16* __restrict__ T19,  // y: bfloat16[M, D]
    const __nv_bfloat16* X6,  // x: bfloat16[M, D], for high_place
    int64_t s14,  // D - (D // 2)
    int64_t n0,  // M
    int64_t n1,  // D
    int64_t X6_offset,  // D // 2
    int64_t X6_end1,  // D - (D // 2)
    int64_t X8_offset,  // -1*(D - (D // 2))
    int64_t n1_reciprocal) {  // reciprocal of n1
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const Index total = Index(n0) * Index(n1);
  const Index first = (Index(fb::block_x()) * (kUnroll * kThreads) + fb::thread_x()) * kVec;

  fb::Packed<__nv_bfloat16, kVec> p0[kUnroll];
  fb::Packed<float, kVec> p1[kUnroll];
  fb::Packed<float, kVec> p2[kUnroll];
  fb::Packed<__nv_bfloat16, kVec> q6[kUnroll];
  FUSEBUILD_UNROLL
  for (int u = 0; u < kUnroll; ++u) {
    const Index i = first + Index(u) * (kThreads * kVec);
    if (i >= total) break;
    const Index i1 = fb::divided(i, Index(n1), n1_reciprocal).remainder;
    p0[u] = fb::load_packed<kVec>(T0 + i);
    p1[u] = fb::load_packed<kVec>(T1 + i);
    p2[u] = fb::load_packed<kVec>(T2 + i);
    q6[u] = fb::load_packed<kVec>(X6 + ((i1 < Index(X6_end1) ? Index(X6_offset) : Index(X8_offset)) + i));
  }

  FUSEBUILD_UNROLL
  for (int u = 0; u < kUnroll; ++u) {
    const Index i = first + Index(u) * (kThreads * kVec);
    if (i >= total) break;
    const Index i1 = fb::divided(i, Index(n1), n1_reciprocal).remainder;
    const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(p0[u]);
    const fb::Vec<float, kVec> v1 = fb::unpack(p1[u]);
    const fb::Vec<float, kVec> v2 = fb::unpack(p2[u]);
    const fb::Vec<__nv_bfloat16, kVec> x6 = fb::unpack(q6[u]);
    fb::Vec<__nv_bfloat16, kVec> v19;
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const __nv_bfloat16 t0 = v0[k];
      const float t1 = v1[k];
      const float t2 = v2[k];
      const __nv_bfloat16 t6 = x6[k];
      const __nv_bfloat16 t8 = x6[k];
      const float t5 = fb::cast<float>(t0) * t1;  // rope.yaml:9
      const float t7 = -fb::cast<float>(t6);  // rope.yaml:9
      const float t9 = fb::cast<float>(t8);  // low_cast, rope.yaml:9
      const int64_t t12 = int64_t(i1 + k);  // rope.yaml:9
      const bool t15 = t12 < s14;  // rope.yaml:9
      const float t16 = fb::where(t15, t7, t9);  // rope.yaml:9
      const float t17 = t16 * t2;  // rope.yaml:9
      const float t18 = t5 + t17;  // y, rope.yaml:9
      const __nv_bfloat16 t19 = fb::cast<__nv_bfloat16>(t18);  // rope.yaml:11
      v19[k] = t19;
    }
    fb::store(T19 + i, v19);
  }
}

FUSEBUILD_ENTRY(pointwise_599bc392766b5c67)
