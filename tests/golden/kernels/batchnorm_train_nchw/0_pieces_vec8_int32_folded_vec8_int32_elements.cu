// batchnorm_train_nchw.yaml, segment 0: outer_persistent, variant columns_vec8_int32_folded_vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 6: 8, 14: 13, 25: 23, 31: 29, 32: 30}
// schedule: threads=128 vectors=8 min_blocks=6, backwards
// launch: segment 0, columns_vec8_int32_folded_vec8_int32 3 of 3 on sm_90: grid ceil_div(argument 10, 128), 1, 1; block
//   128, 1, 1; overlaps what is before; given x, weight, bias, mean, rstd, y, N, C, HW, min(ceil_div(N*C*HW, 8),
//   C*HW*ceil_div(ceil_div(N*C*HW, 8), max(1, C*HW*max(1, min(8, ceil_div(N*C*HW, 8) // (512*gpu.multiprocessors))))));
//   if N*C*HW < 2146435072, aligned(x, 16), HW <= 32, N >= 8, N >= HW, C*HW >= 64, N*HW < 1073741824, aligned(y, 16), N
//   >= 16
// launch: segment 0, pieces_vec8_int32_folded_vec8_int32 3 of 3 on sm_90: grid ceil_div(argument 10, 128), 1, 1; block
//   128, 1, 1; overlaps what is before; given x, weight, bias, mean, rstd, y, N, C, HW, min(ceil_div(N*C*HW, 8),
//   C*HW*ceil_div(ceil_div(N*C*HW, 8), max(1, C*HW*max(1, min(8, ceil_div(N*C*HW, 8) // (512*gpu.multiprocessors))))));
//   if N*C*HW < 2146435072, 8*N*((HW + 14) // 8) < 1073741824, aligned(x, 16), N*HW < 1073741824, aligned(y, 16), N >=
//   16
// launch: segment 0, scalar_int64_folded_vec8_int32 3 of 3 on sm_90: grid ceil_div(argument 10, 128), 1, 1; block 128,
//   1, 1; overlaps what is before; given x, weight, bias, mean, rstd, y, N, C, HW, min(ceil_div(N*C*HW, 8),
//   C*HW*ceil_div(ceil_div(N*C*HW, 8), max(1, C*HW*max(1, min(8, ceil_div(N*C*HW, 8) // (512*gpu.multiprocessors))))));
//   if N*C*HW < 2146435072, aligned(x, 16), aligned(y, 16), N >= 16
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreads = 128;
constexpr int kVec = 8;  // neighbouring elements per access

FUSEBUILD_KERNEL(kThreads, 6)
pointwise_folded_bed6f526c97bcd75(
    const __nv_bfloat16* T0,  // x: bfloat16[N, C, HW]
    const float* T1,  // weight: float[C]
    const float* T2,  // bias: float[C]
    const float* T6,  // mean: float[C]
    const float* T14,  // rstd: float[C]
    __nv_bfloat16* __restrict__ T32,  // y: bfloat16[N, C, HW]
    int64_t n0,  // N
    int64_t n1,  // C
    int64_t n2,  // HW
    int64_t step) {  // vectors from one to the next
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const Index total = n0 * n1 * n2, vectors = (total + kVec - 1) / kVec;
  const Index first = Index(fb::grid_x() - 1 - fb::block_x()) * kThreads + fb::thread_x(), place = first * kVec;
  if (first >= Index(step)) return;
  fb::Packed<__nv_bfloat16, kVec> p0;
  p0 = fb::load_packed_up_to<kVec, fb::Hint::kAhead>(T0 + place, total - place);

  // What is the same for every vector of the thread.
  fb::Vec<float, kVec> v15;
  const fb::Vec<float, kVec> v1 = fb::load_runs<kVec>(T1, place, Index(n1), Index(n2));
  const fb::Vec<float, kVec> v2 = fb::load_runs<kVec>(T2, place, Index(n1), Index(n2));
  const fb::Vec<float, kVec> v6 = fb::load_runs<kVec>(T6, place, Index(n1), Index(n2));
  const fb::Vec<float, kVec> v14 = fb::load_runs<kVec>(T14, place, Index(n1), Index(n2));
  FUSEBUILD_UNROLL
  for (int k = 0; k < kVec; ++k) {
    const float t1 = v1[k];
    const float t14 = v14[k];
    const float t15 = t14 * t1;  // batchnorm_train_nchw.yaml:19
    v15[k] = t15;
  }

  for (Index vector = first; vector < vectors; vector += Index(step)) {
    const Index i = vector * kVec;
    const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(p0);
    fb::Vec<__nv_bfloat16, kVec> v32;
    if (vector + Index(step) < vectors) {  // the next one comes while this one is computed
      const Index place = i + Index(step) * kVec;
      p0 = fb::load_packed_up_to<kVec, fb::Hint::kAhead>(T0 + place, total - place);
    }
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const float t2 = v2[k];
      const float t6 = v6[k];
      const float t15 = v15[k];
      const __nv_bfloat16 t0 = v0[k];
      const float t5 = fb::cast<float>(t0);  // xf, batchnorm_train_nchw.yaml:15
      const float t17 = t5 - t6;  // batchnorm_train_nchw.yaml:21
      const float t19 = t17 * t15;  // batchnorm_train_nchw.yaml:21
      const float t21 = t19 + t2;  // y, batchnorm_train_nchw.yaml:21
      const __nv_bfloat16 t32 = fb::cast<__nv_bfloat16>(t21);  // batchnorm_train_nchw.yaml:25
      v32[k] = t32;
    }
    fb::store_up_to(T32 + i, v32, total - i);
  }
}

FUSEBUILD_ENTRY(pointwise_folded_bed6f526c97bcd75)
