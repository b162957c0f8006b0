// column_sum.yaml, segment 0: reduction, variant folded_vec8_int32
// segment fids to original fids: {0: 0, 1: 1}
// schedule: threads=256 unroll=4 is_split=True walked=[] always_split=False widest=0
// launch: segment 0, folded_vec8_int32 1 of 2 on sm_90: grid 1, argument 7, 1; block 256, 1, 1; overlaps what is
//   before; given x, y, slot 0 of max(4*max(1, ceil_div(M, 8192))*N, 4*max(1, min(max(M > 1024, ceil_div(N, 8) >
//   4*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, M))), (M <= 384)*max(1, min(32, 3072 // max(1, M)))))*(M*N
//   > 24576*max(1, ceil_div(ceil_div(N, 8), 32)))*ceil_div(M*N, 8192*max(1, ceil_div(ceil_div(N, 8), 32))),
//   max((4*gpu.multiprocessors) // max(1, ceil_div(ceil_div(N, 8), 32)), 4*(ceil_div(ceil_div(N, 8), 256) >
//   4*gpu.multiprocessors))))*N, 4*max(1, min(ceil_div(M*N, 8192*max(1, ceil_div(N, 64))), max((4*gpu.multiprocessors)
//   // max(1, ceil_div(N, 64)), 4*(ceil_div(N, 64) > 4*gpu.multiprocessors))))*N, 4*max(1, min(max(M > 8192, N >
//   4*gpu.multiprocessors*max(1, min(256, 4096 // max(1, M))))*(M*N > 12288*max(1, ceil_div(N, 256)))*ceil_div(M*N,
//   4096*max(1, ceil_div(N, 256))), max((4*gpu.multiprocessors) // max(1, ceil_div(N, 256)), 4*(ceil_div(N, 256) >
//   4*gpu.multiprocessors))))*N) bytes, M, N, N, max(1, min(ceil_div(M*N, 8192*max(1, ceil_div(N, 64))),
//   max((4*gpu.multiprocessors) // max(1, ceil_div(N, 64)), 4*(ceil_div(N, 64) > 4*gpu.multiprocessors)))); if M*N <
//   1073741824, aligned(x, 16), M >= 512, 1 <= N, N < 64, M < 1073741824
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreads = 256;
constexpr int kVec = 8;  // columns per thread
constexpr int kUnroll = 4;  // rows in flight per thread
constexpr int kTogether = 4;  // of them that are loaded or left out without a branch

FUSEBUILD_KERNEL(kThreads, 2)
reduction_outer_8134195c9aceb5f2(
    const __nv_bfloat16* T0,  // x: bfloat16[M, N]
    float* __restrict__ T1,  // y: float[N]
    float* __restrict__ P1,  // partial results of y
    int64_t n0,  // M
    int64_t n1,  // N
    int64_t block_width,  // threads side by side
    int64_t splits) {  // blocks that share a reduction
  fb::let_next_kernel_start();  // it waits for the end of this one
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const Index columns = n1;
  const Index depth = n0;
  const Index vectors = columns;  // of kVec rows, which lie in memory as one
  const Index all = vectors;
  const int width = block_width;  // threads side by side
  const fb::Place place = fb::place_of<kThreads>(width);
  const int height = place.height;  // threads that share columns
  const int x = place.x, y = place.y;
  const Index vector = Index(fb::block_x()) * width + x;
  const Index inner = vector * kVec;
  const bool has_columns = vector < all && y < height;
  const Index column = inner / kVec;  // the one whose result the thread may tell
  const int split = fb::block_y();  // of the blocks that take a column's rows in turns
  const Index size = depth * columns, period = columns * kVec;
  constexpr Index kNowhere = -kVec;  // no vector begins there
  const Index readable = size;
  const Index start = inner;
  const int apart = height * period;  // elements from one vector of a thread to its next
  const Index first = Index(split) * (kUnroll * height) + y;
  const Index step = Index(splits) * kUnroll * height;

  fb::Vec<float, kVec> a1 = fb::splat<kVec>(fb::Sum::identity<float>());
  for (Index top = first; has_columns && start + top * period < size; top += step) {
    const int left = size - (start + top * period);  // elements from the first of the thread's on
    fb::Packed<__nv_bfloat16, kVec> c0[kUnroll];
    Index part = kNowhere;  // where a vector begins that the tensor has in part, if the thread has it
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const bool is_there = u * apart < left;
      if (u % kTogether == 0 && !is_there) break;
      if (!is_there) continue;
      const Index r = top + u * height;
      const Index at = start + r * period;  // of the rows, in elements
      if (readable - at < kVec) {
        part = at;
        continue;
      }
      c0[u] = fb::load_packed<kVec>(T0 + at);
    }
    if (part != kNowhere) {  // it comes element by element: to put those together waits for what is loaded before
      const fb::Packed<__nv_bfloat16, kVec> p0 = fb::load_packed_up_to<kVec>(T0 + part, readable - part);
      FUSEBUILD_UNROLL
      for (int u = 0; u < kUnroll; ++u) {
        if (start + (top + u * height) * period != part) continue;
        c0[u] = p0;
      }
    }
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const bool is_there = u * apart < left;
      if (u % kTogether == 0 && !is_there) break;
      if (!is_there) continue;
      const Index r = top + u * height;
      const Index at = start + r * period;  // of the rows, in elements
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(c0[u]);
      if (at >= 0 && at + kVec <= size) {
        FUSEBUILD_UNROLL
        for (int k = 0; k < kVec; ++k) {
          const __nv_bfloat16 t0 = v0[k];
          a1[k] = fb::Sum::combine(a1[k], fb::cast<float>(t0));
        }
        continue;
      }
      const unsigned inside = fb::inside_of<kVec>(at, size);  // bit k: its element k is one of the rows'
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        if (!fb::is_inside(inside, k)) continue;
        const __nv_bfloat16 t0 = v0[k];
        a1[k] = fb::Sum::combine(a1[k], fb::cast<float>(t0));
      }
    }
  }
  FUSEBUILD_SHARED(float, folded1, kThreads * kVec);
  const int beside = (y * width + x) * kVec - inner;  // elements of other vectors before those of the thread's index
  if (has_columns) {
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const Index element = start + k;
      folded1[beside + element] = a1[k];
    }
  }
  fb::sync_block();
  if (has_columns) {
    a1[0] = fb::combine_apart<fb::Sum, kVec>(folded1 + beside + column, columns);
  }
  fb::reduce_columns_of<kThreads>(x, y, width, height, fb::accumulator<fb::Sum>(a1[0]));
  if (y != 0 || !has_columns) return;
  if (splits > 1) {  // reduction_finish combines what they leave in order
    const int64_t place = int64_t(split) * columns + column;
    P1[place] = a1[0];
    return;
  }
  const float t1 = a1[0];  // y, column_sum.yaml:6
  T1[column] = t1;
}

FUSEBUILD_ENTRY(reduction_outer_8134195c9aceb5f2)
