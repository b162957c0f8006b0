// test.yaml, segment 0: reduction, variant vec4_int32
// segment fids to original fids: {0: 1, 2: 6}
// schedule: threads=256 parts=[(block_x=0 ahead=20 group=(reductions=[1] kept=[] partials=0 results=0 across=[]
//   scaled=[] outer=[] depth=[] is_last=True) suffix=)]
// launch: segment 0, vec4_int32 2 of 2 on sm_90: grid (argument 3 > 1)*ceil_div(1, max(1, min(1, (8 - 6*max(argument 3
//   > 640, 1))*min(max(1, 1 // (8*gpu.multiprocessors)), max(max(1, 1 // (16*gpu.multiprocessors)), (256 // max(1,
//   ceil_div(argument 3, 20))) // (8 - 6*max(argument 3 > 640, 1)))), 256))), 1, 1; block 256, 1, 1; one of 2 side by
//   side; overlaps what is before; given s1, slot 3 of max(4*max(1, min((N*K > 12288)*ceil_div(N*K, 4096),
//   max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors)))), 4*max(1, min((N*K > 3072)*ceil_div(N*K, 1024),
//   max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors))))) bytes, max(1, min((N*K > 12288)*ceil_div(N*K,
//   4096), max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors)))), max(1, min(1, (8 - 6*max(max(1, min((N*K
//   > 12288)*ceil_div(N*K, 4096), max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors)))) > 640,
//   1))*min(max(1, 1 // (8*gpu.multiprocessors)), max(max(1, 1 // (16*gpu.multiprocessors)), (256 // max(1,
//   ceil_div(max(1, min((N*K > 12288)*ceil_div(N*K, 4096), max((8*gpu.multiprocessors) // 1, 4*(1 >
//   8*gpu.multiprocessors)))), 20))) // (8 - 6*max(max(1, min((N*K > 12288)*ceil_div(N*K, 4096),
//   max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors)))) > 640, 1)))), 256)); if ((N*K) % 4) == 0,
//   aligned(x1, 16), N*K < 1073741824
// launch: segment 0, shifted_vec4_int32 2 of 2 on sm_90: grid (argument 3 > 1)*ceil_div(1, max(1, min(1, (8 -
//   6*max(argument 3 > 640, 1))*min(max(1, 1 // (8*gpu.multiprocessors)), max(max(1, 1 // (16*gpu.multiprocessors)),
//   (256 // max(1, ceil_div(argument 3, 20))) // (8 - 6*max(argument 3 > 640, 1)))), 256))), 1, 1; block 256, 1, 1; one
//   of 2 side by side; overlaps what is before; given s1, slot 3 of max(4*max(1, min((N*K > 12288)*ceil_div(N*K, 4096),
//   max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors)))), 4*max(1, min((N*K > 3072)*ceil_div(N*K, 1024),
//   max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors))))) bytes, max(1, min((N*K > 12288)*ceil_div(N*K,
//   4096), max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors)))), max(1, min(1, (8 - 6*max(max(1, min((N*K
//   > 12288)*ceil_div(N*K, 4096), max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors)))) > 640,
//   1))*min(max(1, 1 // (8*gpu.multiprocessors)), max(max(1, 1 // (16*gpu.multiprocessors)), (256 // max(1,
//   ceil_div(max(1, min((N*K > 12288)*ceil_div(N*K, 4096), max((8*gpu.multiprocessors) // 1, 4*(1 >
//   8*gpu.multiprocessors)))), 20))) // (8 - 6*max(max(1, min((N*K > 12288)*ceil_div(N*K, 4096),
//   max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors)))) > 640, 1)))), 256)); if aligned(x1, 16), N*K >=
//   2, N*K < 1073741824
// launch: segment 0, scalar_int64 2 of 2 on sm_90: grid (argument 3 > 1)*ceil_div(1, max(1, min(1, (8 - 6*max(argument
//   3 > 640, 1))*min(max(1, 1 // (8*gpu.multiprocessors)), max(max(1, 1 // (16*gpu.multiprocessors)), (256 // max(1,
//   ceil_div(argument 3, 20))) // (8 - 6*max(argument 3 > 640, 1)))), 256))), 1, 1; block 256, 1, 1; one of 2 side by
//   side; overlaps what is before; given s1, slot 3 of max(4*max(1, min((N*K > 12288)*ceil_div(N*K, 4096),
//   max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors)))), 4*max(1, min((N*K > 3072)*ceil_div(N*K, 1024),
//   max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors))))) bytes, max(1, min((N*K > 3072)*ceil_div(N*K,
//   1024), max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors)))), max(1, min(1, (8 - 6*max(max(1, min((N*K
//   > 3072)*ceil_div(N*K, 1024), max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors)))) > 640,
//   1))*min(max(1, 1 // (8*gpu.multiprocessors)), max(max(1, 1 // (16*gpu.multiprocessors)), (256 // max(1,
//   ceil_div(max(1, min((N*K > 3072)*ceil_div(N*K, 1024), max((8*gpu.multiprocessors) // 1, 4*(1 >
//   8*gpu.multiprocessors)))), 20))) // (8 - 6*max(max(1, min((N*K > 3072)*ceil_div(N*K, 1024),
//   max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors)))) > 640, 1)))), 256))
// launch: segment 1, vec4_int32 2 of 2 on sm_90: grid (argument 3 > 1)*ceil_div(1, max(1, min(1, (8 - 6*max(argument 3
//   > 640, 1))*min(max(1, 1 // (8*gpu.multiprocessors)), max(max(1, 1 // (16*gpu.multiprocessors)), (256 // max(1,
//   ceil_div(argument 3, 20))) // (8 - 6*max(argument 3 > 640, 1)))), 256))), 1, 1; block 256, 1, 1; one of 2 side by
//   side; overlaps what is before; given s2, slot 4 of max(4*max(1, min((L > 12288)*ceil_div(L, 4096),
//   max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors)))), 4*max(1, min((L > 3072)*ceil_div(L, 1024),
//   max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors))))) bytes, max(1, min((L > 12288)*ceil_div(L,
//   4096), max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors)))), max(1, min(1, (8 - 6*max(max(1, min((L >
//   12288)*ceil_div(L, 4096), max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors)))) > 640, 1))*min(max(1,
//   1 // (8*gpu.multiprocessors)), max(max(1, 1 // (16*gpu.multiprocessors)), (256 // max(1, ceil_div(max(1, min((L >
//   12288)*ceil_div(L, 4096), max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors)))), 20))) // (8 -
//   6*max(max(1, min((L > 12288)*ceil_div(L, 4096), max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors))))
//   > 640, 1)))), 256)); if (L % 4) == 0, aligned(x2, 16), L < 1073741824
// launch: segment 1, shifted_vec4_int32 2 of 2 on sm_90: grid (argument 3 > 1)*ceil_div(1, max(1, min(1, (8 -
//   6*max(argument 3 > 640, 1))*min(max(1, 1 // (8*gpu.multiprocessors)), max(max(1, 1 // (16*gpu.multiprocessors)),
//   (256 // max(1, ceil_div(argument 3, 20))) // (8 - 6*max(argument 3 > 640, 1)))), 256))), 1, 1; block 256, 1, 1; one
//   of 2 side by side; overlaps what is before; given s2, slot 4 of max(4*max(1, min((L > 12288)*ceil_div(L, 4096),
//   max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors)))), 4*max(1, min((L > 3072)*ceil_div(L, 1024),
//   max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors))))) bytes, max(1, min((L > 12288)*ceil_div(L,
//   4096), max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors)))), max(1, min(1, (8 - 6*max(max(1, min((L >
//   12288)*ceil_div(L, 4096), max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors)))) > 640, 1))*min(max(1,
//   1 // (8*gpu.multiprocessors)), max(max(1, 1 // (16*gpu.multiprocessors)), (256 // max(1, ceil_div(max(1, min((L >
//   12288)*ceil_div(L, 4096), max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors)))), 20))) // (8 -
//   6*max(max(1, min((L > 12288)*ceil_div(L, 4096), max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors))))
//   > 640, 1)))), 256)); if aligned(x2, 16), L >= 2, L < 1073741824
// launch: segment 1, scalar_int64 2 of 2 on sm_90: grid (argument 3 > 1)*ceil_div(1, max(1, min(1, (8 - 6*max(argument
//   3 > 640, 1))*min(max(1, 1 // (8*gpu.multiprocessors)), max(max(1, 1 // (16*gpu.multiprocessors)), (256 // max(1,
//   ceil_div(argument 3, 20))) // (8 - 6*max(argument 3 > 640, 1)))), 256))), 1, 1; block 256, 1, 1; one of 2 side by
//   side; overlaps what is before; given s2, slot 4 of max(4*max(1, min((L > 12288)*ceil_div(L, 4096),
//   max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors)))), 4*max(1, min((L > 3072)*ceil_div(L, 1024),
//   max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors))))) bytes, max(1, min((L > 3072)*ceil_div(L, 1024),
//   max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors)))), max(1, min(1, (8 - 6*max(max(1, min((L >
//   3072)*ceil_div(L, 1024), max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors)))) > 640, 1))*min(max(1, 1
//   // (8*gpu.multiprocessors)), max(max(1, 1 // (16*gpu.multiprocessors)), (256 // max(1, ceil_div(max(1, min((L >
//   3072)*ceil_div(L, 1024), max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors)))), 20))) // (8 -
//   6*max(max(1, min((L > 3072)*ceil_div(L, 1024), max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors)))) >
//   640, 1)))), 256))
#include <fusebuild/kernel.cuh>

using Index = int64_t;
constexpr int kThreads = 256;
constexpr int kTogether = 4;  // partial results that a thread loads or leaves out without a branch

FUSEBUILD_MEMBER(kThreads, 1)
reduction_finish_c4fef2c522c040fc_member(fb::Member member,
    float* __restrict__ T2,  // s1: float[]
    const float* P2,  // partial results of s1
    int64_t splits,  // partial results of each, combined in a fixed order
    int64_t block_width) {  // results per block
  const int width = block_width;
  const fb::Place place = fb::place_of<kThreads>(width);
  const int height = splits < place.height ? splits : place.height;  // threads per result
  constexpr int kAhead = 20;  // partial results that a thread loads before it combines the first
  const int64_t results = 1;
  const int x = place.x, y = place.y;
  const Index kept = Index(member.block) * width + x;
  const int64_t stride = height * results;  // from one partial result of a thread to its next
  fb::wait_for_previous_kernel((y * results + kept) | stride);  // it may still be writing partial results

  float a2 = fb::Sum::identity<float>();
  if (kept < results && y < height) {
    const int apart = height;
    int64_t first = y;
    const auto* q2 = P2 + (first * results + kept);
    for (; first < splits; first += kAhead * apart) {
      const int left = splits - first < kAhead * apart ? int(splits - first) : kAhead * apart;
      float p2[kAhead];
      FUSEBUILD_UNROLL
      for (int u = 0; u < kAhead; ++u) {
        const bool is_there = u * apart < left;
        if (u % kTogether == 0 && !is_there) break;
        fb::forget_origin(q2);  // or compilers find each address from the first one
        if (is_there) {
          p2[u] = *q2;
        }
        q2 += stride;
      }
      FUSEBUILD_UNROLL
      for (int u = 0; u < kAhead; ++u) {
        const bool is_there = u * apart < left;
        if (u % kTogether == 0 && !is_there) break;
        a2 = fb::Sum::combine(a2, is_there ? p2[u] : fb::Sum::identity<float>());
      }
    }
  }
  fb::reduce_columns_of<kThreads>(x, y, width, height, fb::accumulator<fb::Sum>(a2));
  if (y != 0 || kept >= results) return;
  const float t2 = a2;  // test.yaml:8
  T2[0] = t2;
}

FUSEBUILD_MEMBERS_ENTRY(reduction_finish_c4fef2c522c040fc, 2)
