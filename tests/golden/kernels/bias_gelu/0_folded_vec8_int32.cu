// bias_gelu.yaml, segment 0: pointwise, variant folded_vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 12: 11}
// schedule: threads=128 vectors=8 min_blocks=10
// launch: segment 0, folded_vec8_int32 on sm_90: grid ceil_div(argument 6, 128), 1, 1; block 128, 1, 1; overlaps what
//   is before; given x, bias, y, M, N, min(ceil_div(M*N, 8), N*ceil_div(ceil_div(M*N, 8), max(1, N*max(1, min(8,
//   ceil_div(M*N, 8) // (512*gpu.multiprocessors)))))); if M*N < 2146435072, aligned(x, 16), aligned(y, 16)
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreads = 128;
constexpr int kVec = 8;  // neighbouring elements per access

FUSEBUILD_KERNEL(kThreads, 10)
pointwise_folded_36d811e4c0e644d8(
    const __nv_bfloat16* T0,  // x: bfloat16[M, N]
    const __nv_bfloat16* T1,  // bias: bfloat16[N]
    __nv_bfloat16* __restrict__ T12,  // y: bfloat16[M, N]
    int64_t n0,  // M
    int64_t n1,  // N
    int64_t step) {  // vectors from one to the next
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const Index total = n0 * n1, vectors = (total + kVec - 1) / kVec;
  const Index first = Index(fb::block_x()) * kThreads + fb::thread_x(), place = first * kVec;
  if (first >= Index(step)) return;
  fb::Packed<__nv_bfloat16, kVec> p0;
  p0 = fb::load_packed_up_to<kVec, fb::Hint::kAhead>(T0 + place, total - place);

  // What is the same for every vector of the thread.
  const fb::Vec<__nv_bfloat16, kVec> v1 = fb::load_around<kVec>(T1, place % Index(n1), Index(n1));

  for (Index vector = first; vector < vectors; vector += Index(step)) {
    const Index i = vector * kVec;
    const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(p0);
    fb::Vec<__nv_bfloat16, kVec> v12;
    if (vector + Index(step) < vectors) {  // the next one comes while this one is computed
      const Index place = i + Index(step) * kVec;
      p0 = fb::load_packed_up_to<kVec, fb::Hint::kAhead>(T0 + place, total - place);
    }
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const __nv_bfloat16 t1 = v1[k];
      const __nv_bfloat16 t0 = v0[k];
      const float t3 = fb::cast<float>(t0) + fb::cast<float>(t1);  // biased, bias_gelu.yaml:7
      const float t5 = 0.5f * t3;  // bias_gelu.yaml:9
      const float t7 = t3 * 0.7071067811865476f;  // bias_gelu.yaml:9
      const float t8 = fb::erf(t7);  // bias_gelu.yaml:9
      const float t10 = 1.0f + t8;  // bias_gelu.yaml:9
      const float t11 = t5 * t10;  // y, bias_gelu.yaml:9
      const __nv_bfloat16 t12 = fb::cast<__nv_bfloat16>(t11);  // bias_gelu.yaml:11
      v12[k] = t12;
    }
    fb::store_up_to(T12 + i, v12, total - i);
  }
}

FUSEBUILD_ENTRY(pointwise_folded_36d811e4c0e644d8)
