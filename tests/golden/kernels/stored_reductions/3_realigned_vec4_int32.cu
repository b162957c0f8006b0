// stored_reductions.yaml, segment 3: storing_reduction, variant realigned_vec4_int32
// segment fids to original fids: {0: 5, 1: 27, 4: 30, 7: 29}
// schedule: threads=256 unroll=4 is_split=True walked=[] always_split=False widest=0
// launch: segment 3, realigned_vec4_int32 1 of 2 on sm_90: grid ceil_div(ceil_div(K, 4), min(256, max(max(1, min(32,
//   1024 // max(1, R))), 32*max(R > 1024, ceil_div(K, 4) > 4*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1,
//   R))), (R <= 384)*max(1, min(32, 3072 // max(1, R))))), ceil_div(ceil_div(K, 4), 4*gpu.multiprocessors)))), argument
//   12, 1; block 256, 1, 1; overlaps what is before; given w, t, t_mean, t_var, slot 4 of max(8*max(1, min(max(R >
//   8192, K > 4*gpu.multiprocessors*max(1, min(256, 4096 // max(1, R))))*(R*K > 12288*max(1, ceil_div(K,
//   256)))*ceil_div(R*K, 4096*max(1, ceil_div(K, 256))), max((4*gpu.multiprocessors) // max(1, ceil_div(K, 256)),
//   4*(ceil_div(K, 256) > 4*gpu.multiprocessors))))*K, 8*max(1, min(max(R > 1024, ceil_div(K, 4) >
//   4*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, R))), (R <= 384)*max(1, min(32, 3072 // max(1, R)))))*(R*K
//   > 12288*max(1, ceil_div(ceil_div(K, 4), 32)))*ceil_div(R*K, 4096*max(1, ceil_div(ceil_div(K, 4), 32))),
//   max((4*gpu.multiprocessors) // max(1, ceil_div(ceil_div(K, 4), 32)), 4*(ceil_div(ceil_div(K, 4), 256) >
//   4*gpu.multiprocessors))))*K, 8*max(1, min(ceil_div(R*K, 4096*max(1, ceil_div(K, 64))), max((4*gpu.multiprocessors)
//   // max(1, ceil_div(K, 64)), 4*(ceil_div(K, 64) > 4*gpu.multiprocessors))))*K) bytes, slot 5 of max(4*max(1,
//   min(max(R > 8192, K > 4*gpu.multiprocessors*max(1, min(256, 4096 // max(1, R))))*(R*K > 12288*max(1, ceil_div(K,
//   256)))*ceil_div(R*K, 4096*max(1, ceil_div(K, 256))), max((4*gpu.multiprocessors) // max(1, ceil_div(K, 256)),
//   4*(ceil_div(K, 256) > 4*gpu.multiprocessors))))*K, 4*max(1, min(max(R > 1024, ceil_div(K, 4) >
//   4*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, R))), (R <= 384)*max(1, min(32, 3072 // max(1, R)))))*(R*K
//   > 12288*max(1, ceil_div(ceil_div(K, 4), 32)))*ceil_div(R*K, 4096*max(1, ceil_div(ceil_div(K, 4), 32))),
//   max((4*gpu.multiprocessors) // max(1, ceil_div(ceil_div(K, 4), 32)), 4*(ceil_div(ceil_div(K, 4), 256) >
//   4*gpu.multiprocessors))))*K, 4*max(1, min(ceil_div(R*K, 4096*max(1, ceil_div(K, 64))), max((4*gpu.multiprocessors)
//   // max(1, ceil_div(K, 64)), 4*(ceil_div(K, 64) > 4*gpu.multiprocessors))))*K) bytes, slot 6 of max(4*max(1,
//   min(max(R > 8192, K > 4*gpu.multiprocessors*max(1, min(256, 4096 // max(1, R))))*(R*K > 12288*max(1, ceil_div(K,
//   256)))*ceil_div(R*K, 4096*max(1, ceil_div(K, 256))), max((4*gpu.multiprocessors) // max(1, ceil_div(K, 256)),
//   4*(ceil_div(K, 256) > 4*gpu.multiprocessors))))*K, 4*max(1, min(max(R > 1024, ceil_div(K, 4) >
//   4*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, R))), (R <= 384)*max(1, min(32, 3072 // max(1, R)))))*(R*K
//   > 12288*max(1, ceil_div(ceil_div(K, 4), 32)))*ceil_div(R*K, 4096*max(1, ceil_div(ceil_div(K, 4), 32))),
//   max((4*gpu.multiprocessors) // max(1, ceil_div(ceil_div(K, 4), 32)), 4*(ceil_div(ceil_div(K, 4), 256) >
//   4*gpu.multiprocessors))))*K, 4*max(1, min(ceil_div(R*K, 4096*max(1, ceil_div(K, 64))), max((4*gpu.multiprocessors)
//   // max(1, ceil_div(K, 64)), 4*(ceil_div(K, 64) > 4*gpu.multiprocessors))))*K) bytes, R, R, K, ceil_div(ceil_div(K,
//   4), max(1, ceil_div(ceil_div(K, 4), min(256, max(max(1, min(32, 1024 // max(1, R))), 32*max(R > 1024, ceil_div(K,
//   4) > 4*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, R))), (R <= 384)*max(1, min(32, 3072 // max(1, R))))),
//   ceil_div(ceil_div(K, 4), 4*gpu.multiprocessors)))))), max(1, min(max(R > 1024, ceil_div(K, 4) >
//   4*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, R))), (R <= 384)*max(1, min(32, 3072 // max(1, R)))))*(R*K
//   > 12288*max(1, ceil_div(ceil_div(K, 4), 32)))*ceil_div(R*K, 4096*max(1, ceil_div(ceil_div(K, 4), 32))),
//   max((4*gpu.multiprocessors) // max(1, ceil_div(ceil_div(K, 4), 32)), 4*(ceil_div(ceil_div(K, 4), 256) >
//   4*gpu.multiprocessors)))); if R*K < 2146435072, aligned(w, 16), R < 1073741824
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreads = 256;
constexpr int kVec = 4;  // columns per thread
constexpr int kUnroll = 4;  // rows in flight per thread
constexpr int kTogether = 4;  // of them that are loaded or left out without a branch

FUSEBUILD_KERNEL(kThreads, 4)
reduction_outer_dfe665494a448bb7(
    const float* T0,  // w: float[R, K]
    float* T1,  // t: float[R, K]
    float* T4,  // t_mean: float[K]
    float* T7,  // t_var: float[K]
    double* __restrict__ P4,  // partial results of t_mean
    float* __restrict__ P5,  // partial results of t_var_m2
    float* __restrict__ P6,  // partial results of t_var_n
    int64_t s3,  // R
    int64_t n0,  // R
    int64_t n1,  // K
    int64_t block_width,  // threads side by side
    int64_t splits) {  // blocks that share a reduction
  fb::let_next_kernel_start();  // it waits for the end of this one
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const Index columns = n1;
  const Index depth = n0;
  const Index vectors = (columns + kVec - 1) / kVec;  // the last of a row may lack elements
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

  fb::Moments<float> w4[kVec];
  Index read = 0;  // rows that the thread has read
  Index centered = 1;  // how many of them the shifts are the means of
  for (Index top = first; top < end; top += step) {
    const int left = end - top < kUnroll * height ? end - top : kUnroll * height;  // rows from its first one on
    fb::WordsAround<float, kVec> c0[kUnroll];
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const bool is_there = u * apart < left;
      if (u % kTogether == 0 && !is_there) break;
      if (!is_there) continue;
      const Index r = top + u * height;
      c0[u] = fb::load_words_around<kVec>(T0, Index(r * n1 + inner), Index(n0 * n1));
    }
    fb::recenter(centered, read, w4);
    read += kUnroll;
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const bool is_there = u * apart < left;
      if (u % kTogether == 0 && !is_there) break;
      if (!is_there) continue;
      const Index r = top + u * height;
      const bool is_first = u == 0 && top == first;
      const fb::Vec<float, kVec> v0 = fb::unpack(fb::cut_around(c0[u], Index(r * n1 + inner)));
      fb::Vec<float, kVec> o1 = {};
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const float t0 = v0[k];
        const float t1 = fb::relu(t0);  // t, stored_reductions.yaml:21
        const float t2 = t1 * t1;  // stored_reductions.yaml:22
        o1[k] = t1;
        w4[k].add(t2, is_first);
      }
      fb::store_anywhere_up_to(T1 + r * n1 + inner, o1, columns - inner);
    }
  }
  const int64_t count = fb::steps_in_turns<Index>(first, end, height, kUnroll, splits);
  auto a4 = fb::states(w4, count);
  fb::reduce_columns_of<kThreads>(x, y, width, height, fb::accumulator<fb::Welford<float>>(a4));
  if (y != 0 || !has_columns) return;
  if (splits > 1) {  // reduction_finish combines what they leave in order
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      if (inner + k >= columns) break;
      const int64_t place = (int64_t(split)) * columns + inner + k;
      P4[place] = a4[k].v0;
      P5[place] = a4[k].v1;
      P6[place] = a4[k].v2;
    }
    return;
  }
  FUSEBUILD_UNROLL
  for (int k = 0; k < kVec; ++k) {
    if (inner + k >= columns) break;
    const float t4 = fb::Welford<float>::mean(a4[k]);  // t_mean, stored_reductions.yaml:22
    const float t5 = a4[k].v1;  // t_var_m2, stored_reductions.yaml:22
    const float t7 = t5 / fb::cast<float>(s3);  // t_var, stored_reductions.yaml:22
    T4[inner + k] = t4;
    T7[inner + k] = t7;
  }
}

FUSEBUILD_ENTRY(reduction_outer_dfe665494a448bb7)
