// layernorm.yaml, segment 0: inner_persistent, variant short_vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 7: 6, 15: 8, 21: 13}
// schedule: threads.per_row=1 threads.rows=128 storage=registers chunks=5 cached=[0] kept=[] early=[] vec=8 skips=True
// launch: segment 0, short_vec8_int32 on sm_90: grid ceil_div(M, -64*(8 < N) - 32*(16 < N) -
//   16*(32*(4*(64*gpu.multiprocessors < M) + 1) < N) - 8*(64*(4*(64*gpu.multiprocessors < M) + 1) < N) -
//   4*(128*(4*(64*gpu.multiprocessors < M) + 1) < N) + 128), 1, 1; block 128, 1, 1; overlaps what is before; given x,
//   weight, bias, mean, rstd, y, N, M, N, (8 < N) + (16 < N) + (32*(4*(64*gpu.multiprocessors < M) + 1) < N) +
//   (64*(4*(64*gpu.multiprocessors < M) + 1) < N) + (128*(4*(64*gpu.multiprocessors < M) + 1) < N); if N < 2146435072,
//   (N % 8) == 0, aligned(x, 16), aligned(weight, 16), aligned(bias, 16), aligned(y, 16), N <= 1024, (M <= 1320)*N <=
//   256
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreads = 128;
constexpr int kVec = 8;  // neighbouring elements per access
constexpr int kChunks = 5;  // vectors of a row that a thread holds

FUSEBUILD_KERNEL(kThreads, 11)
inner_persistent_20d9e9b626f34729(
    const __nv_bfloat16* T0,  // x: bfloat16[M, N]
    const __nv_bfloat16* T1,  // weight: bfloat16[N]
    const __nv_bfloat16* T2,  // bias: bfloat16[N]
    float* __restrict__ T7,  // mean: float[M, 1]
    float* __restrict__ T15,  // rstd: float[M, 1]
    __nv_bfloat16* __restrict__ T21,  // y: bfloat16[M, N]
    int64_t s4,  // N
    int64_t n0,  // M
    int64_t n1,  // N
    int64_t row_shift) {  // 2 to it threads share a row
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const int64_t rows = n0;
  const Index columns = n1;
  const int threads = 1 << int(row_shift);  // of a row
  const int lane = fb::thread_x() & (threads - 1);
  const int64_t wanted = int64_t(fb::block_x()) * (kThreads >> int(row_shift)) + (fb::thread_x() >> int(row_shift));
  const bool active = wanted < rows;  // the last block's spare threads repeat a row and store nothing
  const int64_t row = active ? wanted : rows - 1;
  constexpr int kLong = 512;  // columns from which on a sector is little of a row
  const bool begins_within = columns < kLong && (wanted & columns / kVec & 1) != 0;  // a sector
  // columns before the row that its first thread leaves out
  const Index skipped = columns > threads * kVec && begins_within ? kVec : 0;
  const __nv_bfloat16* r0 = T0 + row * n1;
  const __nv_bfloat16* r1 = T1;
  const __nv_bfloat16* r2 = T2;
  __nv_bfloat16* r21 = T21 + row * n1;
  fb::Packed<__nv_bfloat16, kVec> c0[kChunks];

  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = (Index(c) * threads + lane) * kVec - skipped;
    if (col >= columns) break;
    if (c == 0 && col < 0) continue;
    c0[c] = fb::load_packed<kVec>(r0 + col);
  }

  float a5 = fb::Sum::identity<float>();
  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = (Index(c) * threads + lane) * kVec - skipped;
    if (col >= columns) break;
    if (c == 0 && col < 0) continue;
    const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(c0[c]);
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const __nv_bfloat16 t0 = v0[k];
      const float t3 = fb::cast<float>(t0);  // xf, layernorm.yaml:12
      a5 = fb::Sum::combine(a5, t3);
    }
  }
  fb::reduce_threads(threads, fb::accumulator<fb::Sum>(a5));
  const float t5 = a5;  // mean_sum, layernorm.yaml:13
  const float t6 = t5 / fb::cast<float>(s4);  // mean_reduced, layernorm.yaml:13

  float a10 = fb::Sum::identity<float>();
  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = (Index(c) * threads + lane) * kVec - skipped;
    if (col >= columns) break;
    if (c == 0 && col < 0) continue;
    const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(c0[c]);
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const __nv_bfloat16 t0 = v0[k];
      const float t3 = fb::cast<float>(t0);  // xf, layernorm.yaml:12
      const float t8 = t3 - t6;  // var_centered, layernorm.yaml:13
      const float t9 = t8 * t8;  // var_squares, layernorm.yaml:13
      a10 = fb::Sum::combine(a10, t9);
    }
  }
  fb::reduce_threads(threads, fb::accumulator<fb::Sum>(a10));
  const float t10 = a10;  // var_sum, layernorm.yaml:13
  const float t11 = t10 / fb::cast<float>(s4);  // var_reduced, layernorm.yaml:13
  const float t14 = t11 + 1e-05f;  // layernorm.yaml:14
  const float t15 = fb::rsqrt(t14);  // rstd, layernorm.yaml:14

  fb::store_rows_of_threads<kThreads>(int(row_shift), rows, fb::row_result(T7, t6), fb::row_result(T15, t15));
  if (!active) return;
  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = (Index(c) * threads + lane) * kVec - skipped;
    if (col >= columns) break;
    if (c == 0 && col < 0) continue;
    const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(c0[c]);
    const fb::Vec<__nv_bfloat16, kVec> v1 = fb::load<kVec>(r1 + col);
    const fb::Vec<__nv_bfloat16, kVec> v2 = fb::load<kVec>(r2 + col);
    fb::Vec<__nv_bfloat16, kVec> o21;
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const __nv_bfloat16 t0 = v0[k];
      const __nv_bfloat16 t1 = v1[k];
      const __nv_bfloat16 t2 = v2[k];
      const float t3 = fb::cast<float>(t0);  // xf, layernorm.yaml:12
      const float t8 = t3 - t6;  // var_centered, layernorm.yaml:13
      const float t16 = t8 * t15;  // layernorm.yaml:15
      const float t18 = t16 * fb::cast<float>(t1);  // layernorm.yaml:15
      const float t20 = t18 + fb::cast<float>(t2);  // y, layernorm.yaml:15
      const __nv_bfloat16 t21 = fb::cast<__nv_bfloat16>(t20);  // layernorm.yaml:17
      o21[k] = t21;
    }
    fb::store(r21 + col, o21);
  }
}

FUSEBUILD_ENTRY(inner_persistent_20d9e9b626f34729)
