// sum_squares.yaml, segment 0: reduction, variant vec8_int32
// segment fids to original fids: {0: 0, 3: 3}
// schedule: threads=256 parts=[(block_x=0 ahead=20 group=(reductions=[2] kept=[] partials=0 results=0 across=[]
//   scaled=[] outer=[] depth=[] is_last=True) suffix=)]
// launch: segment 0, vec8_int32 2 of 2 on sm_90: grid (argument 3 > 1)*((7*(M*N > 16384)*(M*N <= 131072)*(M*N <=
//   4194304) + 1) == 1)*ceil_div(1, max(1, min(1, (8 - 6*max(argument 3 > 640, 1))*min(max(1, 1 //
//   (8*gpu.multiprocessors)), max(max(1, 1 // (16*gpu.multiprocessors)), (256 // max(1, ceil_div(argument 3, 20))) //
//   (8 - 6*max(argument 3 > 640, 1)))), 256))), 1, 1; block 256, 1, 1; overlaps what is before; given y, slot 0 of
//   max(4*max(1, min((M*N > 24576)*ceil_div(M*N, 8192), max((8*gpu.multiprocessors) // 1, 4*(1 >
//   8*gpu.multiprocessors)))), 4*max(1, min((M*N > 3072)*ceil_div(M*N, 1024), max((8*gpu.multiprocessors) // 1, 4*(1 >
//   8*gpu.multiprocessors))))) bytes, max(1, min((M*N > 24576)*ceil_div(M*N, 8192), max((8*gpu.multiprocessors) // 1,
//   4*(1 > 8*gpu.multiprocessors)))), max(1, min(1, (8 - 6*max(max(1, min((M*N > 24576)*ceil_div(M*N, 8192),
//   max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors)))) > 640, 1))*min(max(1, 1 //
//   (8*gpu.multiprocessors)), max(max(1, 1 // (16*gpu.multiprocessors)), (256 // max(1, ceil_div(max(1, min((M*N >
//   24576)*ceil_div(M*N, 8192), max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors)))), 20))) // (8 -
//   6*max(max(1, min((M*N > 24576)*ceil_div(M*N, 8192), max((8*gpu.multiprocessors) // 1, 4*(1 >
//   8*gpu.multiprocessors)))) > 640, 1)))), 256)); if ((M*N) % 8) == 0, aligned(x, 16), M*N < 1073741824
// launch: segment 0, shifted_vec8_int32 2 of 2 on sm_90: grid (argument 3 > 1)*((7*(M*N > 16384)*(M*N <= 131072)*(M*N
//   <= 4194304) + 1) == 1)*ceil_div(1, max(1, min(1, (8 - 6*max(argument 3 > 640, 1))*min(max(1, 1 //
//   (8*gpu.multiprocessors)), max(max(1, 1 // (16*gpu.multiprocessors)), (256 // max(1, ceil_div(argument 3, 20))) //
//   (8 - 6*max(argument 3 > 640, 1)))), 256))), 1, 1; block 256, 1, 1; overlaps what is before; given y, slot 0 of
//   max(4*max(1, min((M*N > 24576)*ceil_div(M*N, 8192), max((8*gpu.multiprocessors) // 1, 4*(1 >
//   8*gpu.multiprocessors)))), 4*max(1, min((M*N > 3072)*ceil_div(M*N, 1024), max((8*gpu.multiprocessors) // 1, 4*(1 >
//   8*gpu.multiprocessors))))) bytes, max(1, min((M*N > 24576)*ceil_div(M*N, 8192), max((8*gpu.multiprocessors) // 1,
//   4*(1 > 8*gpu.multiprocessors)))), max(1, min(1, (8 - 6*max(max(1, min((M*N > 24576)*ceil_div(M*N, 8192),
//   max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors)))) > 640, 1))*min(max(1, 1 //
//   (8*gpu.multiprocessors)), max(max(1, 1 // (16*gpu.multiprocessors)), (256 // max(1, ceil_div(max(1, min((M*N >
//   24576)*ceil_div(M*N, 8192), max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors)))), 20))) // (8 -
//   6*max(max(1, min((M*N > 24576)*ceil_div(M*N, 8192), max((8*gpu.multiprocessors) // 1, 4*(1 >
//   8*gpu.multiprocessors)))) > 640, 1)))), 256)); if aligned(x, 16), M*N >= 4, M*N < 1073741824
// launch: segment 0, scalar_int64 2 of 2 on sm_90: grid (argument 3 > 1)*((7*(M*N > 2048)*(M*N <= 16384)*(M*N <=
//   4194304) + 1) == 1)*ceil_div(1, max(1, min(1, (8 - 6*max(argument 3 > 640, 1))*min(max(1, 1 //
//   (8*gpu.multiprocessors)), max(max(1, 1 // (16*gpu.multiprocessors)), (256 // max(1, ceil_div(argument 3, 20))) //
//   (8 - 6*max(argument 3 > 640, 1)))), 256))), 1, 1; block 256, 1, 1; overlaps what is before; given y, slot 0 of
//   max(4*max(1, min((M*N > 24576)*ceil_div(M*N, 8192), max((8*gpu.multiprocessors) // 1, 4*(1 >
//   8*gpu.multiprocessors)))), 4*max(1, min((M*N > 3072)*ceil_div(M*N, 1024), max((8*gpu.multiprocessors) // 1, 4*(1 >
//   8*gpu.multiprocessors))))) bytes, max(1, min((M*N > 3072)*ceil_div(M*N, 1024), max((8*gpu.multiprocessors) // 1,
//   4*(1 > 8*gpu.multiprocessors)))), max(1, min(1, (8 - 6*max(max(1, min((M*N > 3072)*ceil_div(M*N, 1024),
//   max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors)))) > 640, 1))*min(max(1, 1 //
//   (8*gpu.multiprocessors)), max(max(1, 1 // (16*gpu.multiprocessors)), (256 // max(1, ceil_div(max(1, min((M*N >
//   3072)*ceil_div(M*N, 1024), max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors)))), 20))) // (8 -
//   6*max(max(1, min((M*N > 3072)*ceil_div(M*N, 1024), max((8*gpu.multiprocessors) // 1, 4*(1 >
//   8*gpu.multiprocessors)))) > 640, 1)))), 256))
#include <fusebuild/kernel.cuh>

using Index = int64_t;
constexpr int kThreads = 256;
constexpr int kTogether = 4;  // partial results that a thread loads or leaves out without a branch

FUSEBUILD_KERNEL(kThreads, 1)
reduction_finish_b4797f50efeed511(
    float* __restrict__ T3,  // y: float[]
    const float* P3,  // partial results of y
    int64_t splits,  // partial results of each, combined in a fixed order
    int64_t block_width) {  // results per block
  const int width = block_width;
  const fb::Place place = fb::place_of<kThreads>(width);
  const int height = splits < place.height ? splits : place.height;  // threads per result
  constexpr int kAhead = 20;  // partial results that a thread loads before it combines the first
  const int64_t results = 1;
  const int x = place.x, y = place.y;
  const Index kept = Index(fb::block_x()) * width + x;
  const int64_t stride = height * results;  // from one partial result of a thread to its next
  fb::wait_for_previous_kernel((y * results + kept) | stride);  // it may still be writing partial results

  float a3 = fb::Sum::identity<float>();
  if (kept < results && y < height) {
    const int apart = height;
    int64_t first = y;
    const auto* q3 = P3 + (first * results + kept);
    for (; first < splits; first += kAhead * apart) {
      const int left = splits - first < kAhead * apart ? int(splits - first) : kAhead * apart;
      float p3[kAhead];
      FUSEBUILD_UNROLL
      for (int u = 0; u < kAhead; ++u) {
        const bool is_there = u * apart < left;
        if (u % kTogether == 0 && !is_there) break;
        fb::forget_origin(q3);  // or compilers find each address from the first one
        if (is_there) {
          p3[u] = *q3;
        }
        q3 += stride;
      }
      FUSEBUILD_UNROLL
      for (int u = 0; u < kAhead; ++u) {
        const bool is_there = u * apart < left;
        if (u % kTogether == 0 && !is_there) break;
        a3 = fb::Sum::combine(a3, is_there ? p3[u] : fb::Sum::identity<float>());
      }
    }
  }
  fb::reduce_columns_of<kThreads>(x, y, width, height, fb::accumulator<fb::Sum>(a3));
  if (y != 0 || kept >= results) return;
  const float t3 = a3;  // y, sum_squares.yaml:7
  T3[0] = t3;
}

FUSEBUILD_ENTRY(reduction_finish_b4797f50efeed511)
