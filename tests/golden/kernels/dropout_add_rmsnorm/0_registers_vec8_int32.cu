// dropout_add_rmsnorm.yaml, segment 0: inner_persistent, variant registers_vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 8: 8, 14: 10, 27: 18}
// schedule: threads.per_row=128 threads.rows=1 storage=registers chunks=4 cached=[0, 1] kept=[14] early=[8, 14]
// launch: segment 0, registers_vec8_int32 on sm_90: grid R, 1, 1; block 128, 1, 1; overlaps what is before; given x,
//   residual, weight, mask, added, y, seed, offset, C, C; if C < 2146435072, (C % 8) == 0, aligned(x, 16),
//   aligned(residual, 16), aligned(weight, 16), aligned(mask, 8), aligned(added, 16), aligned(y, 16), C <= 4096
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreadsPerRow = 128;
constexpr int kRowsPerBlock = 1;
constexpr int kVec = 8;  // neighbouring elements per access
constexpr int kChunks = 4;  // vectors of a row that a thread holds

FUSEBUILD_KERNEL(kThreadsPerRow * kRowsPerBlock, 2)
inner_persistent_8aca9a4ee1e2ed2d(
    const __nv_bfloat16* T0,  // x: bfloat16[R, C]
    const __nv_bfloat16* T1,  // residual: bfloat16[R, C]
    const __nv_bfloat16* T2,  // weight: bfloat16[C]
    bool* __restrict__ T8,  // mask: bool[R, C]
    __nv_bfloat16* __restrict__ T14,  // added: bfloat16[R, C]
    __nv_bfloat16* __restrict__ T27,  // y: bfloat16[R, C]
    int64_t s3,  // seed
    int64_t s4,  // offset
    int64_t s17,  // C
    int64_t n1) {  // C
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  fb::ReducePhase phase;
  const Index columns = n1;
  const int lane = fb::thread_x() % kThreadsPerRow;
  const int64_t row = fb::block_x();
  const __nv_bfloat16* r0 = T0 + row * n1;
  const __nv_bfloat16* r1 = T1 + row * n1;
  const __nv_bfloat16* r2 = T2;
  bool* r8 = T8 + row * n1;
  __nv_bfloat16* r14 = T14 + row * n1;
  __nv_bfloat16* r27 = T27 + row * n1;
  fb::Packed<__nv_bfloat16, kVec> c0[kChunks];
  fb::Packed<__nv_bfloat16, kVec> c1[kChunks];
  fb::Vec<__nv_bfloat16, kVec> k14[kChunks];

  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = (Index(c) * kThreadsPerRow + lane) * kVec;
    if (col >= columns) break;
    c0[c] = fb::load_packed<kVec>(r0 + col);
    c1[c] = fb::load_packed<kVec>(r1 + col);
  }

  float a18 = fb::Sum::identity<float>();
  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = (Index(c) * kThreadsPerRow + lane) * kVec;
    if (col >= columns) break;
    const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(c0[c]);
    const fb::Vec<__nv_bfloat16, kVec> v1 = fb::unpack(c1[c]);
    fb::Vec<bool, kVec> o8;
    fb::Vec<__nv_bfloat16, kVec> o14;
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const __nv_bfloat16 t0 = v0[k];
      const __nv_bfloat16 t1 = v1[k];
      const int64_t t5 = fb::vector_element<kVec>(row * n1 + col, k);  // dropped_index, dropout_add_rmsnorm.yaml:18
      const float t6 = fb::philox_uniform(t5, s3, s4);  // dropped_draw, dropout_add_rmsnorm.yaml:18
      const bool t8 = t6 >= 0.1f;  // mask, dropout_add_rmsnorm.yaml:18
      const float t10 = fb::cast<float>(t0) * 1.1111111111111112f;  // dropped_scaled, dropout_add_rmsnorm.yaml:18
      const float t12 = fb::where(t8, t10, 0.0f);  // dropped, dropout_add_rmsnorm.yaml:18
      const float t13 = fb::cast<float>(t1) + t12;  // dropout_add_rmsnorm.yaml:19
      const __nv_bfloat16 t14 = fb::cast<__nv_bfloat16>(t13);  // added, dropout_add_rmsnorm.yaml:19
      const float t15 = fb::cast<float>(t14);  // stored, dropout_add_rmsnorm.yaml:20
      const float t16 = t15 * t15;  // dropout_add_rmsnorm.yaml:21
      k14[c][k] = t14;
      o8[k] = t8;
      o14[k] = t14;
      a18 = fb::Sum::combine(a18, t16);
    }
    fb::store(r8 + col, o8);
    fb::store(r14 + col, o14);
  }
  fb::reduce_row<kThreadsPerRow, kRowsPerBlock>(phase, fb::accumulator<fb::Sum>(a18));
  const float t18 = a18;  // mean_square_sum, dropout_add_rmsnorm.yaml:21
  const float t19 = t18 / fb::cast<float>(s17);  // mean_square_reduced, dropout_add_rmsnorm.yaml:21
  const float t22 = t19 + 1e-06f;  // dropout_add_rmsnorm.yaml:22
  const float t23 = fb::rsqrt(t22);  // dropout_add_rmsnorm.yaml:22

  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = (Index(c) * kThreadsPerRow + lane) * kVec;
    if (col >= columns) break;
    const fb::Vec<__nv_bfloat16, kVec> v2 = fb::load<kVec>(r2 + col);
    fb::Vec<__nv_bfloat16, kVec> o27;
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const __nv_bfloat16 t14 = k14[c][k];
      const __nv_bfloat16 t2 = v2[k];
      const float t15 = fb::cast<float>(t14);  // stored, dropout_add_rmsnorm.yaml:20
      const float t24 = t15 * t23;  // dropout_add_rmsnorm.yaml:22
      const float t26 = t24 * fb::cast<float>(t2);  // y, dropout_add_rmsnorm.yaml:22
      const __nv_bfloat16 t27 = fb::cast<__nv_bfloat16>(t26);  // dropout_add_rmsnorm.yaml:25
      o27[k] = t27;
    }
    fb::store(r27 + col, o27);
  }
}

FUSEBUILD_ENTRY(inner_persistent_8aca9a4ee1e2ed2d)
