// silu_mul.yaml, segment 0: pointwise, variant vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 4: 4}
// schedule: threads=128 unroll=1 min_blocks=16
// launch: segment 0, vec8_int32 on sm_90: grid ceil_div(M*N, 1024), 1, 1; block 128, 1, 1; given gate, up, y, M*N; if
//   M*N < 2146435072, ((M*N) % 8) == 0, aligned(gate, 16), aligned(up, 16), aligned(y, 16)
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreads = 128;
constexpr int kVec = 8;  // neighbouring elements per access
constexpr int kUnroll = 1;  // accesses in flight per thread and tensor

FUSEBUILD_KERNEL(kThreads, 16)
pointwise_d014703337c47b4f(
    const __nv_bfloat16* __restrict__ T0,  // gate: bfloat16[M, N]
    const __nv_bfloat16* __restrict__ T1,  // up: bfloat16[M, N]
    __nv_bfloat16* __restrict__ T4,  // y: bfloat16[M, N]
    int64_t n0) {  // M*N
  const Index total = n0;
  const Index first = (Index(fb::block_x()) * (kUnroll * kThreads) + fb::thread_x()) * kVec;

  fb::Packed<__nv_bfloat16, kVec> p0[kUnroll];
  fb::Packed<__nv_bfloat16, kVec> p1[kUnroll];
  FUSEBUILD_UNROLL
  for (int u = 0; u < kUnroll; ++u) {
    const Index i = first + Index(u) * (kThreads * kVec);
    if (i >= total) break;
    p0[u] = fb::load_packed<kVec>(T0 + i);
    p1[u] = fb::load_packed<kVec>(T1 + i);
  }

  FUSEBUILD_UNROLL
  for (int u = 0; u < kUnroll; ++u) {
    const Index i = first + Index(u) * (kThreads * kVec);
    if (i >= total) break;
    const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(p0[u]);
    const fb::Vec<__nv_bfloat16, kVec> v1 = fb::unpack(p1[u]);
    fb::Vec<__nv_bfloat16, kVec> v4;
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const __nv_bfloat16 t0 = v0[k];
      const __nv_bfloat16 t1 = v1[k];
      const float t2 = fb::silu(fb::cast<float>(t0));  // silu_mul.yaml:7
      const float t3 = t2 * fb::cast<float>(t1);  // y, silu_mul.yaml:7
      const __nv_bfloat16 t4 = fb::cast<__nv_bfloat16>(t3);  // silu_mul.yaml:9
      v4[k] = t4;
    }
    fb::store(T4 + i, v4);
  }
}

FUSEBUILD_ENTRY(pointwise_d014703337c47b4f)
