// column_sum.yaml, segment 0: reduction, variant vec8_int32
// segment fids to original fids: {0: 0, 1: 1}
// schedule: threads=256 unroll=4 is_split=True walked=[] always_split=False widest=8
// launch: segment 0, vec8_int32 1 of 2 on sm_90: grid ceil_div(ceil_div(N, 8), max(1, min(ceil_div(N, 8),
//   2*(ceil_div(N, 8) >= 64) + 4*(ceil_div(N, 8) >= 128) + 2)))*(M > 512)*(M*max(1, min(ceil_div(N, 8), 2*(ceil_div(N,
//   8) >= 64) + 4*(ceil_div(N, 8) >= 128) + 2)) <= 24576)*(M*N > 24576)*(M*N <= 4194304)*(ceil_div(ceil_div(N, 8),
//   max(1, min(ceil_div(N, 8), 2*(ceil_div(N, 8) >= 64) + 4*(ceil_div(N, 8) >= 128) + 2))) <= 64) +
//   ceil_div(ceil_div(N, 8), min(256, max(max(1, min(32, 1024 // max(1, M))), 32*max(M > 1024, ceil_div(N, 8) >
//   4*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, M))), (M <= 384)*max(1, min(32, 3072 // max(1, M))))),
//   ceil_div(ceil_div(N, 8), 4*gpu.multiprocessors))))*((M > 512)*(M*max(1, min(ceil_div(N, 8), 2*(ceil_div(N, 8) >=
//   64) + 4*(ceil_div(N, 8) >= 128) + 2)) <= 24576)*(M*N > 24576)*(M*N <= 4194304)*(ceil_div(ceil_div(N, 8), max(1,
//   min(ceil_div(N, 8), 2*(ceil_div(N, 8) >= 64) + 4*(ceil_div(N, 8) >= 128) + 2))) <= 64) == 0), argument 8, 1; block
//   256, 1, 1; clusters of 7*(M > 512)*(M*max(1, min(ceil_div(N, 8), 2*(ceil_div(N, 8) >= 64) + 4*(ceil_div(N, 8) >=
//   128) + 2)) <= 24576)*(M*N > 24576)*(M*N <= 4194304)*(ceil_div(ceil_div(N, 8), max(1, min(ceil_div(N, 8),
//   2*(ceil_div(N, 8) >= 64) + 4*(ceil_div(N, 8) >= 128) + 2))) <= 64) + 1; overlaps what is before; given x, y, slot 0
//   of max(4*max(1, ceil_div(M, 8192))*N, 4*max(1, min(max(M > 1024, ceil_div(N, 8) > 4*gpu.multiprocessors*max(max(1,
//   min(32, 1024 // max(1, M))), (M <= 384)*max(1, min(32, 3072 // max(1, M)))))*(M*N > 24576*max(1,
//   ceil_div(ceil_div(N, 8), 32)))*ceil_div(M*N, 8192*max(1, ceil_div(ceil_div(N, 8), 32))),
//   max((4*gpu.multiprocessors) // max(1, ceil_div(ceil_div(N, 8), 32)), 4*(ceil_div(ceil_div(N, 8), 256) >
//   4*gpu.multiprocessors))))*N, 4*max(1, min(ceil_div(M*N, 8192*max(1, ceil_div(N, 64))), max((4*gpu.multiprocessors)
//   // max(1, ceil_div(N, 64)), 4*(ceil_div(N, 64) > 4*gpu.multiprocessors))))*N, 4*max(1, min(max(M > 8192, N >
//   4*gpu.multiprocessors*max(1, min(256, 4096 // max(1, M))))*(M*N > 12288*max(1, ceil_div(N, 256)))*ceil_div(M*N,
//   4096*max(1, ceil_div(N, 256))), max((4*gpu.multiprocessors) // max(1, ceil_div(N, 256)), 4*(ceil_div(N, 256) >
//   4*gpu.multiprocessors))))*N) bytes, M, N, max(1, min(ceil_div(N, 8), 2*(ceil_div(N, 8) >= 64) + 4*(ceil_div(N, 8)
//   >= 128) + 2))*(M > 512)*(M*max(1, min(ceil_div(N, 8), 2*(ceil_div(N, 8) >= 64) + 4*(ceil_div(N, 8) >= 128) + 2)) <=
//   24576)*(M*N > 24576)*(M*N <= 4194304)*(ceil_div(ceil_div(N, 8), max(1, min(ceil_div(N, 8), 2*(ceil_div(N, 8) >= 64)
//   + 4*(ceil_div(N, 8) >= 128) + 2))) <= 64) + ceil_div(ceil_div(N, 8), max(1, ceil_div(ceil_div(N, 8), min(256,
//   max(max(1, min(32, 1024 // max(1, M))), 32*max(M > 1024, ceil_div(N, 8) > 4*gpu.multiprocessors*max(max(1, min(32,
//   1024 // max(1, M))), (M <= 384)*max(1, min(32, 3072 // max(1, M))))), ceil_div(ceil_div(N, 8),
//   4*gpu.multiprocessors))))))*((M > 512)*(M*max(1, min(ceil_div(N, 8), 2*(ceil_div(N, 8) >= 64) + 4*(ceil_div(N, 8)
//   >= 128) + 2)) <= 24576)*(M*N > 24576)*(M*N <= 4194304)*(ceil_div(ceil_div(N, 8), max(1, min(ceil_div(N, 8),
//   2*(ceil_div(N, 8) >= 64) + 4*(ceil_div(N, 8) >= 128) + 2))) <= 64) == 0), 7*(M > 512)*(M*max(1, min(ceil_div(N, 8),
//   2*(ceil_div(N, 8) >= 64) + 4*(ceil_div(N, 8) >= 128) + 2)) <= 24576)*(M*N > 24576)*(M*N <=
//   4194304)*(ceil_div(ceil_div(N, 8), max(1, min(ceil_div(N, 8), 2*(ceil_div(N, 8) >= 64) + 4*(ceil_div(N, 8) >= 128)
//   + 2))) <= 64) + 1, 8*(M > 512)*(M*max(1, min(ceil_div(N, 8), 2*(ceil_div(N, 8) >= 64) + 4*(ceil_div(N, 8) >= 128) +
//   2)) <= 24576)*(M*N > 24576)*(M*N <= 4194304)*(ceil_div(ceil_div(N, 8), max(1, min(ceil_div(N, 8), 2*(ceil_div(N, 8)
//   >= 64) + 4*(ceil_div(N, 8) >= 128) + 2))) <= 64) + max(1, min(max(M > 1024, ceil_div(N, 8) >
//   4*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, M))), (M <= 384)*max(1, min(32, 3072 // max(1, M)))))*(M*N
//   > 24576*max(1, ceil_div(ceil_div(N, 8), 32)))*ceil_div(M*N, 8192*max(1, ceil_div(ceil_div(N, 8), 32))),
//   max((4*gpu.multiprocessors) // max(1, ceil_div(ceil_div(N, 8), 32)), 4*(ceil_div(ceil_div(N, 8), 256) >
//   4*gpu.multiprocessors))))*((M > 512)*(M*max(1, min(ceil_div(N, 8), 2*(ceil_div(N, 8) >= 64) + 4*(ceil_div(N, 8) >=
//   128) + 2)) <= 24576)*(M*N > 24576)*(M*N <= 4194304)*(ceil_div(ceil_div(N, 8), max(1, min(ceil_div(N, 8),
//   2*(ceil_div(N, 8) >= 64) + 4*(ceil_div(N, 8) >= 128) + 2))) <= 64) == 0); if M*N < 2146435072, (N % 8) == 0,
//   aligned(x, 16), aligned(y, 16), M < 1073741824
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreads = 256;
constexpr int kVec = 8;  // columns per thread
constexpr int kUnroll = 4;  // rows in flight per thread
constexpr int kTogether = 4;  // of them that are loaded or left out without a branch
constexpr int kWidest = 8;  // threads side by side where the blocks that share columns run together

FUSEBUILD_KERNEL(kThreads, 2)
reduction_outer_b5cae0d4940d1a8f(
    const __nv_bfloat16* T0,  // x: bfloat16[M, N]
    float* __restrict__ T1,  // y: float[N]
    float* __restrict__ P1,  // partial results of y
    int64_t n0,  // M
    int64_t n1,  // N
    int64_t block_width,  // threads side by side
    int64_t cluster,  // blocks that share a reduction and run together
    int64_t splits) {  // blocks that share a reduction
  fb::let_next_kernel_start();  // it waits for the end of this one
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const Index columns = n1;
  const Index depth = n0;
  const Index vectors = columns / kVec;
  const Index all = vectors;
  const int width = block_width;  // threads side by side
  const fb::Place place = fb::place_of<kThreads>(width);
  const int height = place.height;  // threads that share columns
  const int x = place.x, y = place.y;
  const Index vector = Index(fb::block_x()) * width + x;
  const Index inner = vector * kVec;
  const bool has_columns = vector < all && y < height;
  const int split = fb::block_y();  // of the blocks that take a column's rows in turns
  const Index end = has_columns ? depth : 0;
  const int apart = height;  // rows from one of a thread to its next
  const Index first = Index(split) * (kUnroll * height) + y;
  const Index step = Index(splits) * kUnroll * height;

  fb::Vec<float, kVec> a1 = fb::splat<kVec>(fb::Sum::identity<float>());
  for (Index top = first; top < end; top += step) {
    const int left = end - top < kUnroll * height ? end - top : kUnroll * height;  // rows from its first one on
    fb::Packed<__nv_bfloat16, kVec> c0[kUnroll];
    const __nv_bfloat16* r0 = T0 + (top * n1 + inner);
    const int64_t stride0 = height * n1;
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const bool is_there = u * apart < left;
      if (u % kTogether == 0 && !is_there) break;
      if (is_there) c0[u] = fb::load_packed<kVec>(r0);
      r0 += stride0;
    }
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const bool is_there = u * apart < left;
      if (u % kTogether == 0 && !is_there) break;
      if (!is_there) continue;
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(c0[u]);
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t0 = v0[k];
        a1[k] = fb::Sum::combine(a1[k], fb::cast<float>(t0));
      }
    }
  }
  fb::reduce_columns_of<kThreads>(x, y, width, height, fb::accumulator<fb::Sum>(a1));
  if (cluster == 1) {  // first: what most calls run through lies together
    if (y != 0 || !has_columns) return;
    if (splits > 1) {  // reduction_finish combines what they leave in order
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const int64_t place = int64_t(split) * all * kVec + vector * kVec + k;
        P1[place] = a1[k];
      }
      return;
    }
    fb::Vec<float, kVec> o1;
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const float t1 = a1[k];  // y, column_sum.yaml:6
      o1[k] = t1;
    }
    fb::store(T1 + inner, o1);
    return;
  }
  if (!fb::reduce_in_first_block<kThreads, kWidest>(x, y, width, fb::accumulator<fb::Sum>(a1))) return;
  if (y != 0 || !has_columns) return;
  fb::Vec<float, kVec> o1;
  FUSEBUILD_UNROLL
  for (int k = 0; k < kVec; ++k) {
    const float t1 = a1[k];  // y, column_sum.yaml:6
    o1[k] = t1;
  }
  fb::store(T1 + inner, o1);
}

FUSEBUILD_ENTRY(reduction_outer_b5cae0d4940d1a8f)
