// repeated_outputs.yaml, segment 0: repeating_pointwise, variant vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 5: 7, 6: 8, 9: 14}
// schedule: threads=64 unroll=1 min_blocks=16
// launch: segment 0, vec8_int32 1 of 2 on sm_90: grid ceil_div(T*H*D, 512), 1, 1; block 64, 1, 1; overlaps what is
//   before; given x, a, b, weight, is_first, y, T*H, D, 4294967295 // max(D, 1); if T*H*D < 2146435072, (D % 8) == 0,
//   aligned(x, 16), aligned(y, 16)
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreads = 64;
constexpr int kVec = 8;  // neighbouring elements per access
constexpr int kUnroll = 1;  // accesses in flight per thread and tensor

FUSEBUILD_KERNEL(kThreads, 16)
pointwise_056340c01b9c4135(
    const __nv_bfloat16* T0,  // x: bfloat16[T, H, D]
    const float* T1,  // a: float[T, H]
    const __half* T2,  // b: half[T, H]
    float* T5,  // weight: float[T, H]
    bool* T6,  // is_first: bool[T, H]
    __nv_bfloat16* T9,  // y: bfloat16[T, H, D]
    int64_t n0,  // T*H
    int64_t n1,  // D
    int64_t n1_reciprocal) {  // reciprocal of n1
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const Index total = Index(n0) * Index(n1);
  const Index first = (Index(fb::block_x()) * (kUnroll * kThreads) + fb::thread_x()) * kVec;

  fb::Packed<__nv_bfloat16, kVec> p0[kUnroll];
  FUSEBUILD_UNROLL
  for (int u = 0; u < kUnroll; ++u) {
    const Index i = first + Index(u) * (kThreads * kVec);
    if (i >= total) break;
    p0[u] = fb::load_packed<kVec>(T0 + i);
  }

  FUSEBUILD_UNROLL
  for (int u = 0; u < kUnroll; ++u) {
    const Index i = first + Index(u) * (kThreads * kVec);
    if (i >= total) break;
    const Index i1 = fb::divided(i, Index(n1), n1_reciprocal).remainder;
    const Index i0 = fb::divided(i, Index(n1), n1_reciprocal).quotient;
    const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(p0[u]);
    const float t1 = T1[i0];  // a
    const __half t2 = T2[i0];  // b
    const float t3 = fb::maximum(t1, fb::cast<float>(t2));  // top, repeated_outputs.yaml:10
    const float t4 = t1 - t3;  // repeated_outputs.yaml:11
    const float t5 = fb::exp(t4);  // weight, repeated_outputs.yaml:11
    const bool t6 = t1 > fb::cast<float>(t2);  // is_first, repeated_outputs.yaml:12
    fb::Vec<__nv_bfloat16, kVec> v9;
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const __nv_bfloat16 t0 = v0[k];
      const float t8 = fb::cast<float>(t0) * t5;  // y, repeated_outputs.yaml:13
      const __nv_bfloat16 t9 = fb::cast<__nv_bfloat16>(t8);  // repeated_outputs.yaml:19
      v9[k] = t9;
    }
    fb::store(T9 + i, v9);
    if (i1 == 0) T5[i0] = t5;
    if (i1 == 0) T6[i0] = t6;
  }
}

FUSEBUILD_ENTRY(pointwise_056340c01b9c4135)
