// rmsnorm.yaml, segment 0: inner_persistent, variant N128_registers_vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 10: 7, 14: 10}
// schedule: threads.per_row=8 threads.rows=16 storage=registers chunks=2 cached=[0, 1] kept=[] early=[]
// launch: segment 0, N128_registers_vec8_int32 on sm_90: grid ceil_div(M, 16), 1, 1; block 128, 1, 1; overlaps what is
//   before; given x, weight, rstd, y, M; if N == 128, N < 2146435072, (N % 8) == 0, aligned(x, 16), aligned(weight,
//   16), aligned(y, 16), 64 < N, N <= 128
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreadsPerRow = 8;
constexpr int kRowsPerBlock = 16;
constexpr int kVec = 8;  // neighbouring elements per access
constexpr int kChunks = 2;  // vectors of a row that a thread holds

FUSEBUILD_KERNEL(kThreadsPerRow * kRowsPerBlock, 2)
inner_persistent_a3e2dd194f6fdf6a(
    const __nv_bfloat16* T0,  // x: bfloat16[M, N]
    const __nv_bfloat16* T1,  // weight: bfloat16[N]
    float* __restrict__ T10,  // rstd: float[M, 1]
    __nv_bfloat16* __restrict__ T14,  // y: bfloat16[M, N]
    int64_t n0) {  // M
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  constexpr int64_t s4 = 128;  // N
  constexpr int64_t n1 = 128;  // N
  const int64_t rows = n0;
  const Index columns = n1;
  const int lane = fb::thread_x() % kThreadsPerRow;
  const int64_t wanted = int64_t(fb::block_x()) * kRowsPerBlock + fb::thread_x() / kThreadsPerRow;
  const bool active = wanted < rows;  // the last block's spare threads repeat a row and store nothing
  const int64_t row = active ? wanted : rows - 1;
  const __nv_bfloat16* r0 = T0 + row * n1;
  const __nv_bfloat16* r1 = T1;
  __nv_bfloat16* r14 = T14 + row * n1;
  fb::Packed<__nv_bfloat16, kVec> c0[kChunks];
  fb::Packed<__nv_bfloat16, kVec> c1[kChunks];

  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = (Index(c) * kThreadsPerRow + lane) * kVec;
    if (col >= columns) break;
    c0[c] = fb::load_packed<kVec>(r0 + col);
    c1[c] = fb::load_packed<kVec>(r1 + col);
  }

  float a5 = fb::Sum::identity<float>();
  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = (Index(c) * kThreadsPerRow + lane) * kVec;
    if (col >= columns) break;
    const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(c0[c]);
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const __nv_bfloat16 t0 = v0[k];
      const float t2 = fb::cast<float>(t0);  // xf, rmsnorm.yaml:11
      const float t3 = t2 * t2;  // rmsnorm.yaml:12
      a5 = fb::Sum::combine(a5, t3);
    }
  }
  fb::reduce_row<kThreadsPerRow, kRowsPerBlock>(fb::accumulator<fb::Sum>(a5));
  const float t5 = a5;  // mean_square_sum, rmsnorm.yaml:12
  const float t6 = t5 / fb::cast<float>(s4);  // mean_square_reduced, rmsnorm.yaml:12
  const float t9 = t6 + 1e-06f;  // rmsnorm.yaml:13
  const float t10 = fb::rsqrt(t9);  // rstd, rmsnorm.yaml:13

  fb::store_rows<kThreadsPerRow, kRowsPerBlock>(rows, fb::row_result(T10, t10));
  if (!active) return;
  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = (Index(c) * kThreadsPerRow + lane) * kVec;
    if (col >= columns) break;
    const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(c0[c]);
    const fb::Vec<__nv_bfloat16, kVec> v1 = fb::unpack(c1[c]);
    fb::Vec<__nv_bfloat16, kVec> o14;
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const __nv_bfloat16 t0 = v0[k];
      const __nv_bfloat16 t1 = v1[k];
      const float t2 = fb::cast<float>(t0);  // xf, rmsnorm.yaml:11
      const float t11 = t2 * t10;  // rmsnorm.yaml:14
      const float t13 = t11 * fb::cast<float>(t1);  // y, rmsnorm.yaml:14
      const __nv_bfloat16 t14 = fb::cast<__nv_bfloat16>(t13);  // rmsnorm.yaml:16
      o14[k] = t14;
    }
    fb::store(r14 + col, o14);
  }
}

FUSEBUILD_ENTRY(inner_persistent_a3e2dd194f6fdf6a)
