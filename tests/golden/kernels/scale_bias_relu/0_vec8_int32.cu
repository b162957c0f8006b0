// scale_bias_relu.yaml, segment 0: pointwise, variant vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 8: 6}
// schedule: threads=128 unroll=1 min_blocks=8
// launch: segment 0, vec8_int32 on sm_90: grid ceil_div(M*N, 1024), 1, 1; block 128, 1, 1; overlaps what is before;
//   given x, scale, bias, y, M, N, 4294967295 // max(N, 1); if M*N < 2146435072, (N % 8) == 0, aligned(x, 16),
//   aligned(scale, 16), aligned(bias, 16), aligned(y, 16)
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreads = 128;
constexpr int kVec = 8;  // neighbouring elements per access
constexpr int kUnroll = 1;  // accesses in flight per thread and tensor

FUSEBUILD_KERNEL(kThreads, 8)
pointwise_b1d61c569568273f(
    const __half* T0,  // x: half[M, N]
    const __half* T1,  // scale: half[N]
    const __half* T2,  // bias: half[N]
    __half* __restrict__ T8,  // y: half[M, N]
    int64_t n0,  // M
    int64_t n1,  // N
    int64_t n1_reciprocal) {  // reciprocal of n1
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const Index total = Index(n0) * Index(n1);
  const Index first = (Index(fb::block_x()) * (kUnroll * kThreads) + fb::thread_x()) * kVec;

  fb::Packed<__half, kVec> p0[kUnroll];
  fb::Packed<__half, kVec> p1[kUnroll];
  fb::Packed<__half, kVec> p2[kUnroll];
  FUSEBUILD_UNROLL
  for (int u = 0; u < kUnroll; ++u) {
    const Index i = first + Index(u) * (kThreads * kVec);
    if (i >= total) break;
    const Index i1 = fb::divided(i, Index(n1), n1_reciprocal).remainder;
    p0[u] = fb::load_packed<kVec>(T0 + i);
    p1[u] = fb::load_packed<kVec>(T1 + i1);
    p2[u] = fb::load_packed<kVec>(T2 + i1);
  }

  FUSEBUILD_UNROLL
  for (int u = 0; u < kUnroll; ++u) {
    const Index i = first + Index(u) * (kThreads * kVec);
    if (i >= total) break;
    const fb::Vec<__half, kVec> v0 = fb::unpack(p0[u]);
    const fb::Vec<__half, kVec> v1 = fb::unpack(p1[u]);
    const fb::Vec<__half, kVec> v2 = fb::unpack(p2[u]);
    fb::Vec<__half, kVec> v8;
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const __half t0 = v0[k];
      const __half t1 = v1[k];
      const __half t2 = v2[k];
      const float t4 = fb::cast<float>(t0) * fb::cast<float>(t1);  // scale_bias_relu.yaml:8
      const float t6 = t4 + fb::cast<float>(t2);  // scale_bias_relu.yaml:8
      const float t7 = fb::relu(t6);  // y, scale_bias_relu.yaml:8
      const __half t8 = fb::cast<__half>(t7);  // scale_bias_relu.yaml:10
      v8[k] = t8;
    }
    fb::store(T8 + i, v8);
  }
}

FUSEBUILD_ENTRY(pointwise_b1d61c569568273f)
