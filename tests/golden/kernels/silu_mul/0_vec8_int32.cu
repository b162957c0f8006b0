// silu_mul.yaml, segment 0: pointwise, variant vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 4: 4}
// schedule: threads=128 unroll=1 min_blocks=16
// launch: segment 0, vec8_int32 on sm_90: grid ceil_div(((M*N) // 8) + ((M*N) % 8), 128), 1, 1; block 128, 1, 1;
//   overlaps what is before; given gate, up, y, M*N; if M*N < 2146435072, aligned(gate, 16), aligned(up, 16),
//   aligned(y, 16)
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreads = 128;
constexpr int kVec = 8;  // neighbouring elements per access
constexpr int kUnroll = 1;  // accesses in flight per thread and tensor

FUSEBUILD_KERNEL(kThreads, 16)
pointwise_f304e386f724c54d(
    const __nv_bfloat16* T0,  // gate: bfloat16[M, N]
    const __nv_bfloat16* T1,  // up: bfloat16[M, N]
    __nv_bfloat16* __restrict__ T4,  // y: bfloat16[M, N]
    int64_t n0) {  // M*N
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const Index total = n0;
  const Index vectors = total / kVec;  // and one for each element beside them
  const Index first = Index(fb::block_x()) * (kUnroll * kThreads) + fb::thread_x();

  fb::AllOrOne<__nv_bfloat16, kVec> p0[kUnroll];
  fb::AllOrOne<__nv_bfloat16, kVec> p1[kUnroll];
  FUSEBUILD_UNROLL
  for (int u = 0; u < kUnroll; ++u) {
    const Index own = first + u * kThreads;
    if (own >= vectors + total % kVec) break;
    const Index i = (own < vectors ? own : vectors) * kVec;
    const int alone = own < vectors ? -1 : static_cast<int>(own - vectors);
    p0[u] = fb::load_all_or_one<kVec>(T0 + i, alone);
    p1[u] = fb::load_all_or_one<kVec>(T1 + i, alone);
  }

  FUSEBUILD_UNROLL
  for (int u = 0; u < kUnroll; ++u) {
    const Index own = first + u * kThreads;
    if (own >= vectors + total % kVec) break;
    const Index i = (own < vectors ? own : vectors) * kVec;
    const int alone = own < vectors ? -1 : static_cast<int>(own - vectors);
    const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(p0[u], alone);
    const fb::Vec<__nv_bfloat16, kVec> v1 = fb::unpack(p1[u], alone);
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
    fb::store_all_or_one(T4 + i, v4, alone);
  }
}

FUSEBUILD_ENTRY(pointwise_f304e386f724c54d)
