// column_sum.yaml, segment 0: reduction, variant small_scalar_int64
// segment fids to original fids: {0: 0, 1: 1}
// schedule: threads=256 parts=[(block_x=0 ahead=20 group=(reductions=[0] kept=[1] partials=0 results=0 across=[]
//   scaled=[] outer=[] depth=[] is_last=True) suffix=)]
// launch: segment 0, small_scalar_int64 2 of 2 on sm_90: grid (max(1, ceil_div(M, 8192)) > 1)*((7*(M > 1024)*(M*max(1,
//   min(N, 16*(N >= 512) + 32*(N >= 1024) + 16)) <= 98304)*(M*N > 12288)*(M*N <= 4194304)*(ceil_div(N, max(1, min(N,
//   16*(N >= 512) + 32*(N >= 1024) + 16))) <= 64) + 1) == 1)*ceil_div(N, argument 5), 1, 1; block 256, 1, 1; overlaps
//   what is before; given y, slot 0 of max(4*max(1, ceil_div(M, 8192))*N, 4*max(1, min(max(M > 1024, ceil_div(N, 8) >
//   4*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, M))), (M <= 384)*max(1, min(32, 3072 // max(1, M)))))*(M*N
//   > 24576*max(1, ceil_div(ceil_div(N, 8), 32)))*ceil_div(M*N, 8192*max(1, ceil_div(ceil_div(N, 8), 32))),
//   max((4*gpu.multiprocessors) // max(1, ceil_div(ceil_div(N, 8), 32)), 4*(ceil_div(ceil_div(N, 8), 256) >
//   4*gpu.multiprocessors))))*N, 4*max(1, min(ceil_div(M*N, 8192*max(1, ceil_div(N, 64))), max((4*gpu.multiprocessors)
//   // max(1, ceil_div(N, 64)), 4*(ceil_div(N, 64) > 4*gpu.multiprocessors))))*N, 4*max(1, min(max(M > 8192, N >
//   4*gpu.multiprocessors*max(1, min(256, 4096 // max(1, M))))*(M*N > 12288*max(1, ceil_div(N, 256)))*ceil_div(M*N,
//   4096*max(1, ceil_div(N, 256))), max((4*gpu.multiprocessors) // max(1, ceil_div(N, 256)), 4*(ceil_div(N, 256) >
//   4*gpu.multiprocessors))))*N) bytes, N, max(1, ceil_div(M, 8192)), max(1, min(N, (8 - 6*max(max(1, ceil_div(M,
//   8192)) > 640, N < 8))*min(max(1, N // (8*gpu.multiprocessors)), max(max(1, N // (16*gpu.multiprocessors)), (256 //
//   max(1, ceil_div(max(1, ceil_div(M, 8192)), 20))) // (8 - 6*max(max(1, ceil_div(M, 8192)) > 640, N < 8)))), 256));
//   if M*N <= (786432*(M <= 16) + 262144), M <= 8192
// launch: segment 0, vec8_int32 2 of 2 on sm_90: grid (argument 4 > 1)*((7*(M > 512)*(M*max(1, min(ceil_div(N, 8),
//   2*(ceil_div(N, 8) >= 64) + 4*(ceil_div(N, 8) >= 128) + 2)) <= 24576)*(M*N > 24576)*(M*N <=
//   4194304)*(ceil_div(ceil_div(N, 8), max(1, min(ceil_div(N, 8), 2*(ceil_div(N, 8) >= 64) + 4*(ceil_div(N, 8) >= 128)
//   + 2))) <= 64) + 1) == 1)*ceil_div(N, max(1, min(N, (8 - 6*max(argument 4 > 640, N < 8))*min(max(1, N //
//   (8*gpu.multiprocessors)), max(max(1, N // (16*gpu.multiprocessors)), (256 // max(1, ceil_div(argument 4, 20))) //
//   (8 - 6*max(argument 4 > 640, N < 8)))), 256))), 1, 1; block 256, 1, 1; overlaps what is before; given y, slot 0 of
//   max(4*max(1, ceil_div(M, 8192))*N, 4*max(1, min(max(M > 1024, ceil_div(N, 8) > 4*gpu.multiprocessors*max(max(1,
//   min(32, 1024 // max(1, M))), (M <= 384)*max(1, min(32, 3072 // max(1, M)))))*(M*N > 24576*max(1,
//   ceil_div(ceil_div(N, 8), 32)))*ceil_div(M*N, 8192*max(1, ceil_div(ceil_div(N, 8), 32))),
//   max((4*gpu.multiprocessors) // max(1, ceil_div(ceil_div(N, 8), 32)), 4*(ceil_div(ceil_div(N, 8), 256) >
//   4*gpu.multiprocessors))))*N, 4*max(1, min(ceil_div(M*N, 8192*max(1, ceil_div(N, 64))), max((4*gpu.multiprocessors)
//   // max(1, ceil_div(N, 64)), 4*(ceil_div(N, 64) > 4*gpu.multiprocessors))))*N, 4*max(1, min(max(M > 8192, N >
//   4*gpu.multiprocessors*max(1, min(256, 4096 // max(1, M))))*(M*N > 12288*max(1, ceil_div(N, 256)))*ceil_div(M*N,
//   4096*max(1, ceil_div(N, 256))), max((4*gpu.multiprocessors) // max(1, ceil_div(N, 256)), 4*(ceil_div(N, 256) >
//   4*gpu.multiprocessors))))*N) bytes, N, max(1, min(max(M > 1024, ceil_div(N, 8) > 4*gpu.multiprocessors*max(max(1,
//   min(32, 1024 // max(1, M))), (M <= 384)*max(1, min(32, 3072 // max(1, M)))))*(M*N > 24576*max(1,
//   ceil_div(ceil_div(N, 8), 32)))*ceil_div(M*N, 8192*max(1, ceil_div(ceil_div(N, 8), 32))),
//   max((4*gpu.multiprocessors) // max(1, ceil_div(ceil_div(N, 8), 32)), 4*(ceil_div(ceil_div(N, 8), 256) >
//   4*gpu.multiprocessors)))), max(1, min(N, (8 - 6*max(max(1, min(max(M > 1024, ceil_div(N, 8) >
//   4*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, M))), (M <= 384)*max(1, min(32, 3072 // max(1, M)))))*(M*N
//   > 24576*max(1, ceil_div(ceil_div(N, 8), 32)))*ceil_div(M*N, 8192*max(1, ceil_div(ceil_div(N, 8), 32))),
//   max((4*gpu.multiprocessors) // max(1, ceil_div(ceil_div(N, 8), 32)), 4*(ceil_div(ceil_div(N, 8), 256) >
//   4*gpu.multiprocessors)))) > 640, N < 8))*min(max(1, N // (8*gpu.multiprocessors)), max(max(1, N //
//   (16*gpu.multiprocessors)), (256 // max(1, ceil_div(max(1, min(max(M > 1024, ceil_div(N, 8) >
//   4*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, M))), (M <= 384)*max(1, min(32, 3072 // max(1, M)))))*(M*N
//   > 24576*max(1, ceil_div(ceil_div(N, 8), 32)))*ceil_div(M*N, 8192*max(1, ceil_div(ceil_div(N, 8), 32))),
//   max((4*gpu.multiprocessors) // max(1, ceil_div(ceil_div(N, 8), 32)), 4*(ceil_div(ceil_div(N, 8), 256) >
//   4*gpu.multiprocessors)))), 20))) // (8 - 6*max(max(1, min(max(M > 1024, ceil_div(N, 8) >
//   4*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, M))), (M <= 384)*max(1, min(32, 3072 // max(1, M)))))*(M*N
//   > 24576*max(1, ceil_div(ceil_div(N, 8), 32)))*ceil_div(M*N, 8192*max(1, ceil_div(ceil_div(N, 8), 32))),
//   max((4*gpu.multiprocessors) // max(1, ceil_div(ceil_div(N, 8), 32)), 4*(ceil_div(ceil_div(N, 8), 256) >
//   4*gpu.multiprocessors)))) > 640, N < 8)))), 256)); if M*N < 2146435072, (N % 8) == 0, aligned(x, 16), aligned(y,
//   16), M < 1073741824
// launch: segment 0, folded_vec8_int32 2 of 2 on sm_90: grid (argument 4 > 1)*ceil_div(N, max(1, min(N, (8 -
//   6*max(argument 4 > 640, N < 8))*min(max(1, N // (8*gpu.multiprocessors)), max(max(1, N //
//   (16*gpu.multiprocessors)), (256 // max(1, ceil_div(argument 4, 20))) // (8 - 6*max(argument 4 > 640, N < 8)))),
//   256))), 1, 1; block 256, 1, 1; overlaps what is before; given y, slot 0 of max(4*max(1, ceil_div(M, 8192))*N,
//   4*max(1, min(max(M > 1024, ceil_div(N, 8) > 4*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, M))), (M <=
//   384)*max(1, min(32, 3072 // max(1, M)))))*(M*N > 24576*max(1, ceil_div(ceil_div(N, 8), 32)))*ceil_div(M*N,
//   8192*max(1, ceil_div(ceil_div(N, 8), 32))), max((4*gpu.multiprocessors) // max(1, ceil_div(ceil_div(N, 8), 32)),
//   4*(ceil_div(ceil_div(N, 8), 256) > 4*gpu.multiprocessors))))*N, 4*max(1, min(ceil_div(M*N, 8192*max(1, ceil_div(N,
//   64))), max((4*gpu.multiprocessors) // max(1, ceil_div(N, 64)), 4*(ceil_div(N, 64) > 4*gpu.multiprocessors))))*N,
//   4*max(1, min(max(M > 8192, N > 4*gpu.multiprocessors*max(1, min(256, 4096 // max(1, M))))*(M*N > 12288*max(1,
//   ceil_div(N, 256)))*ceil_div(M*N, 4096*max(1, ceil_div(N, 256))), max((4*gpu.multiprocessors) // max(1, ceil_div(N,
//   256)), 4*(ceil_div(N, 256) > 4*gpu.multiprocessors))))*N) bytes, N, max(1, min(ceil_div(M*N, 8192*max(1,
//   ceil_div(N, 64))), max((4*gpu.multiprocessors) // max(1, ceil_div(N, 64)), 4*(ceil_div(N, 64) >
//   4*gpu.multiprocessors)))), max(1, min(N, (8 - 6*max(max(1, min(ceil_div(M*N, 8192*max(1, ceil_div(N, 64))),
//   max((4*gpu.multiprocessors) // max(1, ceil_div(N, 64)), 4*(ceil_div(N, 64) > 4*gpu.multiprocessors)))) > 640, N <
//   8))*min(max(1, N // (8*gpu.multiprocessors)), max(max(1, N // (16*gpu.multiprocessors)), (256 // max(1,
//   ceil_div(max(1, min(ceil_div(M*N, 8192*max(1, ceil_div(N, 64))), max((4*gpu.multiprocessors) // max(1, ceil_div(N,
//   64)), 4*(ceil_div(N, 64) > 4*gpu.multiprocessors)))), 20))) // (8 - 6*max(max(1, min(ceil_div(M*N, 8192*max(1,
//   ceil_div(N, 64))), max((4*gpu.multiprocessors) // max(1, ceil_div(N, 64)), 4*(ceil_div(N, 64) >
//   4*gpu.multiprocessors)))) > 640, N < 8)))), 256)); if M*N < 1073741824, aligned(x, 16), M >= 512, 1 <= N, N < 64, M
//   < 1073741824
// launch: segment 0, realigned_vec8_int32 2 of 2 on sm_90: grid (argument 4 > 1)*((7*(M > 512)*(M*max(1,
//   min(ceil_div(N, 8), 2*(ceil_div(N, 8) >= 64) + 4*(ceil_div(N, 8) >= 128) + 2)) <= 24576)*(M*N > 24576)*(M*N <=
//   4194304)*(ceil_div(ceil_div(N, 8), max(1, min(ceil_div(N, 8), 2*(ceil_div(N, 8) >= 64) + 4*(ceil_div(N, 8) >= 128)
//   + 2))) <= 64) + 1) == 1)*ceil_div(N, max(1, min(N, (8 - 6*max(argument 4 > 640, N < 8))*min(max(1, N //
//   (8*gpu.multiprocessors)), max(max(1, N // (16*gpu.multiprocessors)), (256 // max(1, ceil_div(argument 4, 20))) //
//   (8 - 6*max(argument 4 > 640, N < 8)))), 256))), 1, 1; block 256, 1, 1; overlaps what is before; given y, slot 0 of
//   max(4*max(1, ceil_div(M, 8192))*N, 4*max(1, min(max(M > 1024, ceil_div(N, 8) > 4*gpu.multiprocessors*max(max(1,
//   min(32, 1024 // max(1, M))), (M <= 384)*max(1, min(32, 3072 // max(1, M)))))*(M*N > 24576*max(1,
//   ceil_div(ceil_div(N, 8), 32)))*ceil_div(M*N, 8192*max(1, ceil_div(ceil_div(N, 8), 32))),
//   max((4*gpu.multiprocessors) // max(1, ceil_div(ceil_div(N, 8), 32)), 4*(ceil_div(ceil_div(N, 8), 256) >
//   4*gpu.multiprocessors))))*N, 4*max(1, min(ceil_div(M*N, 8192*max(1, ceil_div(N, 64))), max((4*gpu.multiprocessors)
//   // max(1, ceil_div(N, 64)), 4*(ceil_div(N, 64) > 4*gpu.multiprocessors))))*N, 4*max(1, min(max(M > 8192, N >
//   4*gpu.multiprocessors*max(1, min(256, 4096 // max(1, M))))*(M*N > 12288*max(1, ceil_div(N, 256)))*ceil_div(M*N,
//   4096*max(1, ceil_div(N, 256))), max((4*gpu.multiprocessors) // max(1, ceil_div(N, 256)), 4*(ceil_div(N, 256) >
//   4*gpu.multiprocessors))))*N) bytes, N, max(1, min(max(M > 1024, ceil_div(N, 8) > 4*gpu.multiprocessors*max(max(1,
//   min(32, 1024 // max(1, M))), (M <= 384)*max(1, min(32, 3072 // max(1, M)))))*(M*N > 24576*max(1,
//   ceil_div(ceil_div(N, 8), 32)))*ceil_div(M*N, 8192*max(1, ceil_div(ceil_div(N, 8), 32))),
//   max((4*gpu.multiprocessors) // max(1, ceil_div(ceil_div(N, 8), 32)), 4*(ceil_div(ceil_div(N, 8), 256) >
//   4*gpu.multiprocessors)))), max(1, min(N, (8 - 6*max(max(1, min(max(M > 1024, ceil_div(N, 8) >
//   4*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, M))), (M <= 384)*max(1, min(32, 3072 // max(1, M)))))*(M*N
//   > 24576*max(1, ceil_div(ceil_div(N, 8), 32)))*ceil_div(M*N, 8192*max(1, ceil_div(ceil_div(N, 8), 32))),
//   max((4*gpu.multiprocessors) // max(1, ceil_div(ceil_div(N, 8), 32)), 4*(ceil_div(ceil_div(N, 8), 256) >
//   4*gpu.multiprocessors)))) > 640, N < 8))*min(max(1, N // (8*gpu.multiprocessors)), max(max(1, N //
//   (16*gpu.multiprocessors)), (256 // max(1, ceil_div(max(1, min(max(M > 1024, ceil_div(N, 8) >
//   4*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, M))), (M <= 384)*max(1, min(32, 3072 // max(1, M)))))*(M*N
//   > 24576*max(1, ceil_div(ceil_div(N, 8), 32)))*ceil_div(M*N, 8192*max(1, ceil_div(ceil_div(N, 8), 32))),
//   max((4*gpu.multiprocessors) // max(1, ceil_div(ceil_div(N, 8), 32)), 4*(ceil_div(ceil_div(N, 8), 256) >
//   4*gpu.multiprocessors)))), 20))) // (8 - 6*max(max(1, min(max(M > 1024, ceil_div(N, 8) >
//   4*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, M))), (M <= 384)*max(1, min(32, 3072 // max(1, M)))))*(M*N
//   > 24576*max(1, ceil_div(ceil_div(N, 8), 32)))*ceil_div(M*N, 8192*max(1, ceil_div(ceil_div(N, 8), 32))),
//   max((4*gpu.multiprocessors) // max(1, ceil_div(ceil_div(N, 8), 32)), 4*(ceil_div(ceil_div(N, 8), 256) >
//   4*gpu.multiprocessors)))) > 640, N < 8)))), 256)); if M*N < 2146435072, aligned(x, 16), M < 1073741824
// launch: segment 0, scalar_int64 2 of 2 on sm_90: grid (argument 4 > 1)*((7*(M > 1024)*(M*max(1, min(N, 16*(N >= 512)
//   + 32*(N >= 1024) + 16)) <= 98304)*(M*N > 12288)*(M*N <= 4194304)*(ceil_div(N, max(1, min(N, 16*(N >= 512) + 32*(N
//   >= 1024) + 16))) <= 64) + 1) == 1)*ceil_div(N, max(1, min(N, (8 - 6*max(argument 4 > 640, N < 8))*min(max(1, N //
//   (8*gpu.multiprocessors)), max(max(1, N // (16*gpu.multiprocessors)), (256 // max(1, ceil_div(argument 4, 20))) //
//   (8 - 6*max(argument 4 > 640, N < 8)))), 256))), 1, 1; block 256, 1, 1; overlaps what is before; given y, slot 0 of
//   max(4*max(1, ceil_div(M, 8192))*N, 4*max(1, min(max(M > 1024, ceil_div(N, 8) > 4*gpu.multiprocessors*max(max(1,
//   min(32, 1024 // max(1, M))), (M <= 384)*max(1, min(32, 3072 // max(1, M)))))*(M*N > 24576*max(1,
//   ceil_div(ceil_div(N, 8), 32)))*ceil_div(M*N, 8192*max(1, ceil_div(ceil_div(N, 8), 32))),
//   max((4*gpu.multiprocessors) // max(1, ceil_div(ceil_div(N, 8), 32)), 4*(ceil_div(ceil_div(N, 8), 256) >
//   4*gpu.multiprocessors))))*N, 4*max(1, min(ceil_div(M*N, 8192*max(1, ceil_div(N, 64))), max((4*gpu.multiprocessors)
//   // max(1, ceil_div(N, 64)), 4*(ceil_div(N, 64) > 4*gpu.multiprocessors))))*N, 4*max(1, min(max(M > 8192, N >
//   4*gpu.multiprocessors*max(1, min(256, 4096 // max(1, M))))*(M*N > 12288*max(1, ceil_div(N, 256)))*ceil_div(M*N,
//   4096*max(1, ceil_div(N, 256))), max((4*gpu.multiprocessors) // max(1, ceil_div(N, 256)), 4*(ceil_div(N, 256) >
//   4*gpu.multiprocessors))))*N) bytes, N, max(1, min(max(M > 8192, N > 4*gpu.multiprocessors*max(1, min(256, 4096 //
//   max(1, M))))*(M*N > 12288*max(1, ceil_div(N, 256)))*ceil_div(M*N, 4096*max(1, ceil_div(N, 256))),
//   max((4*gpu.multiprocessors) // max(1, ceil_div(N, 256)), 4*(ceil_div(N, 256) > 4*gpu.multiprocessors)))), max(1,
//   min(N, (8 - 6*max(max(1, min(max(M > 8192, N > 4*gpu.multiprocessors*max(1, min(256, 4096 // max(1, M))))*(M*N >
//   12288*max(1, ceil_div(N, 256)))*ceil_div(M*N, 4096*max(1, ceil_div(N, 256))), max((4*gpu.multiprocessors) // max(1,
//   ceil_div(N, 256)), 4*(ceil_div(N, 256) > 4*gpu.multiprocessors)))) > 640, N < 8))*min(max(1, N //
//   (8*gpu.multiprocessors)), max(max(1, N // (16*gpu.multiprocessors)), (256 // max(1, ceil_div(max(1, min(max(M >
//   8192, N > 4*gpu.multiprocessors*max(1, min(256, 4096 // max(1, M))))*(M*N > 12288*max(1, ceil_div(N,
//   256)))*ceil_div(M*N, 4096*max(1, ceil_div(N, 256))), max((4*gpu.multiprocessors) // max(1, ceil_div(N, 256)),
//   4*(ceil_div(N, 256) > 4*gpu.multiprocessors)))), 20))) // (8 - 6*max(max(1, min(max(M > 8192, N >
//   4*gpu.multiprocessors*max(1, min(256, 4096 // max(1, M))))*(M*N > 12288*max(1, ceil_div(N, 256)))*ceil_div(M*N,
//   4096*max(1, ceil_div(N, 256))), max((4*gpu.multiprocessors) // max(1, ceil_div(N, 256)), 4*(ceil_div(N, 256) >
//   4*gpu.multiprocessors)))) > 640, N < 8)))), 256))
#include <fusebuild/kernel.cuh>

using Index = int64_t;
constexpr int kThreads = 256;
constexpr int kTogether = 4;  // partial results that a thread loads or leaves out without a branch

FUSEBUILD_KERNEL(kThreads, 1)
reduction_finish_9e4d214f3e2f16f0(
    float* __restrict__ T1,  // y: float[N]
    const float* P1,  // partial results of y
    int64_t n1,  // N
    int64_t splits,  // partial results of each, combined in a fixed order
    int64_t block_width) {  // results per block
  const int width = block_width;
  const fb::Place place = fb::place_of<kThreads>(width);
  const int height = splits < place.height ? splits : place.height;  // threads per result
  constexpr int kAhead = 20;  // partial results that a thread loads before it combines the first
  const int64_t results = n1;
  const int x = place.x, y = place.y;
  const Index kept = Index(fb::block_x()) * width + x;
  const int64_t stride = height * results;  // from one partial result of a thread to its next
  fb::wait_for_previous_kernel((y * results + kept) | stride);  // it may still be writing partial results

  float a1 = fb::Sum::identity<float>();
  if (kept < results && y < height) {
    const int apart = height;
    int64_t first = y;
    const auto* q1 = P1 + (first * results + kept);
    for (; first < splits; first += kAhead * apart) {
      const int left = splits - first < kAhead * apart ? int(splits - first) : kAhead * apart;
      float p1[kAhead];
      FUSEBUILD_UNROLL
      for (int u = 0; u < kAhead; ++u) {
        const bool is_there = u * apart < left;
        if (u % kTogether == 0 && !is_there) break;
        fb::forget_origin(q1);  // or compilers find each address from the first one
        if (is_there) {
          p1[u] = *q1;
        }
        q1 += stride;
      }
      FUSEBUILD_UNROLL
      for (int u = 0; u < kAhead; ++u) {
        const bool is_there = u * apart < left;
        if (u % kTogether == 0 && !is_there) break;
        a1 = fb::Sum::combine(a1, is_there ? p1[u] : fb::Sum::identity<float>());
      }
    }
  }
  fb::reduce_columns_of<kThreads>(x, y, width, height, fb::accumulator<fb::Sum>(a1));
  if (y != 0 || kept >= results) return;
  const float t1 = a1;  // y, column_sum.yaml:6
  T1[kept] = t1;
}

FUSEBUILD_ENTRY(reduction_finish_9e4d214f3e2f16f0)
