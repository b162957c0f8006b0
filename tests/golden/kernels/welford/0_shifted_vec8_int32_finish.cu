// welford.yaml, segment 0: reduction, variant vec8_int32
// segment fids to original fids: {0: 0, 3: 6, 6: 9}
// schedule: threads=256 parts=[(block_x=0 ahead=10 group=(reductions=[0] kept=[0] partials=0 results=0 across=[]
//   scaled=[] outer=[] depth=[] is_last=True) suffix=)]
// launch: segment 0, vec8_int32 2 of 2 on sm_90: grid (argument 7 > 1)*((7*(M <= 64)*(N > 16384)*(N <= 131072)*(M*N <=
//   4194304) + 1) == 1)*ceil_div(M, max(1, min(M, (8 - 6*max(argument 7 > 320, M < 8))*min(max(1, M //
//   (8*gpu.multiprocessors)), max(max(1, M // (16*gpu.multiprocessors)), (256 // max(1, ceil_div(argument 7, 10))) //
//   (8 - 6*max(argument 7 > 320, M < 8)))), 256))), 1, 1; block 256, 1, 1; overlaps what is before; given mean, var,
//   slot 0 of max(4*max(1, min((N > 24576)*ceil_div(N, 8192), max((8*gpu.multiprocessors) // max(1, M), 4*(M >
//   8*gpu.multiprocessors))))*M, 4*max(1, min((N > 3072)*ceil_div(N, 1024), max((8*gpu.multiprocessors) // max(1, M),
//   4*(M > 8*gpu.multiprocessors))))*M) bytes, slot 1 of max(4*max(1, min((N > 24576)*ceil_div(N, 8192),
//   max((8*gpu.multiprocessors) // max(1, M), 4*(M > 8*gpu.multiprocessors))))*M, 4*max(1, min((N > 3072)*ceil_div(N,
//   1024), max((8*gpu.multiprocessors) // max(1, M), 4*(M > 8*gpu.multiprocessors))))*M) bytes, slot 2 of max(4*max(1,
//   min((N > 24576)*ceil_div(N, 8192), max((8*gpu.multiprocessors) // max(1, M), 4*(M > 8*gpu.multiprocessors))))*M,
//   4*max(1, min((N > 3072)*ceil_div(N, 1024), max((8*gpu.multiprocessors) // max(1, M), 4*(M >
//   8*gpu.multiprocessors))))*M) bytes, M, max(1, min((N > 24576)*ceil_div(N, 8192), max((8*gpu.multiprocessors) //
//   max(1, M), 4*(M > 8*gpu.multiprocessors)))), max(1, min(M, (8 - 6*max(max(1, min((N > 24576)*ceil_div(N, 8192),
//   max((8*gpu.multiprocessors) // max(1, M), 4*(M > 8*gpu.multiprocessors)))) > 320, M < 8))*min(max(1, M //
//   (8*gpu.multiprocessors)), max(max(1, M // (16*gpu.multiprocessors)), (256 // max(1, ceil_div(max(1, min((N >
//   24576)*ceil_div(N, 8192), max((8*gpu.multiprocessors) // max(1, M), 4*(M > 8*gpu.multiprocessors)))), 10))) // (8 -
//   6*max(max(1, min((N > 24576)*ceil_div(N, 8192), max((8*gpu.multiprocessors) // max(1, M), 4*(M >
//   8*gpu.multiprocessors)))) > 320, M < 8)))), 256)); if M*N < 2146435072, (N % 8) == 0, aligned(x, 16), N <
//   1073741824
// launch: segment 0, tiled_int64 2 of 2 on sm_90: grid (argument 7 > 1)*((7*(M <= 64)*(N > 2048)*(N <= 16384)*(M*N <=
//   4194304) + 1) == 1)*ceil_div(M, max(1, min(M, (8 - 6*max(argument 7 > 320, M < 8))*min(max(1, M //
//   (8*gpu.multiprocessors)), max(max(1, M // (16*gpu.multiprocessors)), (256 // max(1, ceil_div(argument 7, 10))) //
//   (8 - 6*max(argument 7 > 320, M < 8)))), 256))), 1, 1; block 256, 1, 1; overlaps what is before; given mean, var,
//   slot 0 of max(4*max(1, min((N > 24576)*ceil_div(N, 8192), max((8*gpu.multiprocessors) // max(1, M), 4*(M >
//   8*gpu.multiprocessors))))*M, 4*max(1, min((N > 3072)*ceil_div(N, 1024), max((8*gpu.multiprocessors) // max(1, M),
//   4*(M > 8*gpu.multiprocessors))))*M) bytes, slot 1 of max(4*max(1, min((N > 24576)*ceil_div(N, 8192),
//   max((8*gpu.multiprocessors) // max(1, M), 4*(M > 8*gpu.multiprocessors))))*M, 4*max(1, min((N > 3072)*ceil_div(N,
//   1024), max((8*gpu.multiprocessors) // max(1, M), 4*(M > 8*gpu.multiprocessors))))*M) bytes, slot 2 of max(4*max(1,
//   min((N > 24576)*ceil_div(N, 8192), max((8*gpu.multiprocessors) // max(1, M), 4*(M > 8*gpu.multiprocessors))))*M,
//   4*max(1, min((N > 3072)*ceil_div(N, 1024), max((8*gpu.multiprocessors) // max(1, M), 4*(M >
//   8*gpu.multiprocessors))))*M) bytes, M, max(1, min((N > 3072)*ceil_div(N, 1024), max((8*gpu.multiprocessors) //
//   max(1, M), 4*(M > 8*gpu.multiprocessors)))), max(1, min(M, (8 - 6*max(max(1, min((N > 3072)*ceil_div(N, 1024),
//   max((8*gpu.multiprocessors) // max(1, M), 4*(M > 8*gpu.multiprocessors)))) > 320, M < 8))*min(max(1, M //
//   (8*gpu.multiprocessors)), max(max(1, M // (16*gpu.multiprocessors)), (256 // max(1, ceil_div(max(1, min((N >
//   3072)*ceil_div(N, 1024), max((8*gpu.multiprocessors) // max(1, M), 4*(M > 8*gpu.multiprocessors)))), 10))) // (8 -
//   6*max(max(1, min((N > 3072)*ceil_div(N, 1024), max((8*gpu.multiprocessors) // max(1, M), 4*(M >
//   8*gpu.multiprocessors)))) > 320, M < 8)))), 256)); if 1 <= N, N <= 256
// launch: segment 0, shifted_vec8_int32 2 of 2 on sm_90: grid (argument 7 > 1)*((7*(M <= 64)*(N > 16384)*(N <=
//   131072)*(M*N <= 4194304) + 1) == 1)*ceil_div(M, max(1, min(M, (8 - 6*max(argument 7 > 320, M < 8))*min(max(1, M //
//   (8*gpu.multiprocessors)), max(max(1, M // (16*gpu.multiprocessors)), (256 // max(1, ceil_div(argument 7, 10))) //
//   (8 - 6*max(argument 7 > 320, M < 8)))), 256))), 1, 1; block 256, 1, 1; overlaps what is before; given mean, var,
//   slot 0 of max(4*max(1, min((N > 24576)*ceil_div(N, 8192), max((8*gpu.multiprocessors) // max(1, M), 4*(M >
//   8*gpu.multiprocessors))))*M, 4*max(1, min((N > 3072)*ceil_div(N, 1024), max((8*gpu.multiprocessors) // max(1, M),
//   4*(M > 8*gpu.multiprocessors))))*M) bytes, slot 1 of max(4*max(1, min((N > 24576)*ceil_div(N, 8192),
//   max((8*gpu.multiprocessors) // max(1, M), 4*(M > 8*gpu.multiprocessors))))*M, 4*max(1, min((N > 3072)*ceil_div(N,
//   1024), max((8*gpu.multiprocessors) // max(1, M), 4*(M > 8*gpu.multiprocessors))))*M) bytes, slot 2 of max(4*max(1,
//   min((N > 24576)*ceil_div(N, 8192), max((8*gpu.multiprocessors) // max(1, M), 4*(M > 8*gpu.multiprocessors))))*M,
//   4*max(1, min((N > 3072)*ceil_div(N, 1024), max((8*gpu.multiprocessors) // max(1, M), 4*(M >
//   8*gpu.multiprocessors))))*M) bytes, M, max(1, min((N > 24576)*ceil_div(N, 8192), max((8*gpu.multiprocessors) //
//   max(1, M), 4*(M > 8*gpu.multiprocessors)))), max(1, min(M, (8 - 6*max(max(1, min((N > 24576)*ceil_div(N, 8192),
//   max((8*gpu.multiprocessors) // max(1, M), 4*(M > 8*gpu.multiprocessors)))) > 320, M < 8))*min(max(1, M //
//   (8*gpu.multiprocessors)), max(max(1, M // (16*gpu.multiprocessors)), (256 // max(1, ceil_div(max(1, min((N >
//   24576)*ceil_div(N, 8192), max((8*gpu.multiprocessors) // max(1, M), 4*(M > 8*gpu.multiprocessors)))), 10))) // (8 -
//   6*max(max(1, min((N > 24576)*ceil_div(N, 8192), max((8*gpu.multiprocessors) // max(1, M), 4*(M >
//   8*gpu.multiprocessors)))) > 320, M < 8)))), 256)); if aligned(x, 16), N >= 4, N < 1073741824
// launch: segment 0, scalar_int64 2 of 2 on sm_90: grid (argument 7 > 1)*((7*(M <= 64)*(N > 2048)*(N <= 16384)*(M*N <=
//   4194304) + 1) == 1)*ceil_div(M, max(1, min(M, (8 - 6*max(argument 7 > 320, M < 8))*min(max(1, M //
//   (8*gpu.multiprocessors)), max(max(1, M // (16*gpu.multiprocessors)), (256 // max(1, ceil_div(argument 7, 10))) //
//   (8 - 6*max(argument 7 > 320, M < 8)))), 256))), 1, 1; block 256, 1, 1; overlaps what is before; given mean, var,
//   slot 0 of max(4*max(1, min((N > 24576)*ceil_div(N, 8192), max((8*gpu.multiprocessors) // max(1, M), 4*(M >
//   8*gpu.multiprocessors))))*M, 4*max(1, min((N > 3072)*ceil_div(N, 1024), max((8*gpu.multiprocessors) // max(1, M),
//   4*(M > 8*gpu.multiprocessors))))*M) bytes, slot 1 of max(4*max(1, min((N > 24576)*ceil_div(N, 8192),
//   max((8*gpu.multiprocessors) // max(1, M), 4*(M > 8*gpu.multiprocessors))))*M, 4*max(1, min((N > 3072)*ceil_div(N,
//   1024), max((8*gpu.multiprocessors) // max(1, M), 4*(M > 8*gpu.multiprocessors))))*M) bytes, slot 2 of max(4*max(1,
//   min((N > 24576)*ceil_div(N, 8192), max((8*gpu.multiprocessors) // max(1, M), 4*(M > 8*gpu.multiprocessors))))*M,
//   4*max(1, min((N > 3072)*ceil_div(N, 1024), max((8*gpu.multiprocessors) // max(1, M), 4*(M >
//   8*gpu.multiprocessors))))*M) bytes, M, max(1, min((N > 3072)*ceil_div(N, 1024), max((8*gpu.multiprocessors) //
//   max(1, M), 4*(M > 8*gpu.multiprocessors)))), max(1, min(M, (8 - 6*max(max(1, min((N > 3072)*ceil_div(N, 1024),
//   max((8*gpu.multiprocessors) // max(1, M), 4*(M > 8*gpu.multiprocessors)))) > 320, M < 8))*min(max(1, M //
//   (8*gpu.multiprocessors)), max(max(1, M // (16*gpu.multiprocessors)), (256 // max(1, ceil_div(max(1, min((N >
//   3072)*ceil_div(N, 1024), max((8*gpu.multiprocessors) // max(1, M), 4*(M > 8*gpu.multiprocessors)))), 10))) // (8 -
//   6*max(max(1, min((N > 3072)*ceil_div(N, 1024), max((8*gpu.multiprocessors) // max(1, M), 4*(M >
//   8*gpu.multiprocessors)))) > 320, M < 8)))), 256))
#include <fusebuild/kernel.cuh>

using Index = int64_t;
constexpr int kThreads = 256;
constexpr int kTogether = 4;  // partial results that a thread loads or leaves out without a branch

FUSEBUILD_KERNEL(kThreads, 1)
reduction_finish_84db29815b7355b9(
    float* __restrict__ T3,  // mean: float[M]
    float* __restrict__ T6,  // var: float[M]
    const float* P3,  // partial results of mean
    const float* P4,  // partial results of m2
    const float* P5,  // partial results of n
    int64_t n0,  // M
    int64_t splits,  // partial results of each, combined in a fixed order
    int64_t block_width) {  // results per block
  const int width = block_width;
  const fb::Place place = fb::place_of<kThreads>(width);
  const int height = splits < place.height ? splits : place.height;  // threads per result
  constexpr int kAhead = 10;  // partial results that a thread loads before it combines the first
  const int64_t results = n0;
  const int x = place.x, y = place.y;
  const Index kept = Index(fb::block_x()) * width + x;
  const int64_t stride = height * results;  // from one partial result of a thread to its next
  fb::wait_for_previous_kernel((y * results + kept) | stride);  // it may still be writing partial results

  fb::MeanAndSquares<float>::State a3 = {0.0f, 0.0f, 0.0f};
  if (kept < results && y < height) {
    const int apart = height;
    int64_t first = y;
    const auto* q3 = P3 + (first * results + kept);
    const auto* q4 = P4 + (first * results + kept);
    const auto* q5 = P5 + (first * results + kept);
    for (; first < splits; first += kAhead * apart) {
      const int left = splits - first < kAhead * apart ? int(splits - first) : kAhead * apart;
      fb::MeanAndSquares<float>::State p3[kAhead];
      FUSEBUILD_UNROLL
      for (int u = 0; u < kAhead; ++u) {
        const bool is_there = u * apart < left;
        if (u % kTogether == 0 && !is_there) break;
        fb::forget_origin(q3);  // or compilers find each address from the first one
        fb::forget_origin(q4);
        fb::forget_origin(q5);
        if (is_there) {
          p3[u] = {*q3, *q4, *q5};
        }
        q3 += stride;
        q4 += stride;
        q5 += stride;
      }
      FUSEBUILD_UNROLL
      for (int u = 0; u < kAhead; ++u) {
        const bool is_there = u * apart < left;
        if (u % kTogether == 0 && !is_there) break;
        a3 =
            fb::MeanAndSquares<float>::combine(a3, is_there ? p3[u]
            : fb::MeanAndSquares<float>::State{0.0f, 0.0f, 0.0f});
      }
    }
  }
  fb::reduce_columns_of<kThreads>(x, y, width, height, fb::accumulator<fb::MeanAndSquares<float>>(a3));
  if (y != 0 || kept >= results) return;
  const float t3 = a3.v0;  // mean, welford.yaml:17
  const float t4 = a3.v1;  // m2, welford.yaml:17
  const float t5 = a3.v2;  // n, welford.yaml:17
  const float t6 = t4 / t5;  // var, welford.yaml:18
  T3[kept] = t3;
  T6[kept] = t6;
}

FUSEBUILD_ENTRY(reduction_finish_84db29815b7355b9)
