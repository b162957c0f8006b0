// batchnorm_train.yaml, segment 0: outer_persistent, variant vec8_int32_rows_vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 6: 8, 14: 13, 26: 20, 32: 26, 33: 27}
// schedule: threads=256 unroll=4 is_split=True walked=[] always_split=False widest=0
// launch: segment 0, vec8_int32_rows_vec8_int32 1 of 3 on sm_90: grid ceil_div(ceil_div(C, 8), min(256, max(max(1,
//   min(32, 1024 // max(1, R))), 32*max(R > 1024, ceil_div(C, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 //
//   max(1, R))), (R <= 384)*max(1, min(32, 3072 // max(1, R))))), ceil_div(ceil_div(C, 8), 3*gpu.multiprocessors)))),
//   argument 15, 1; block 256, 1, 1; overlaps what is before; given x, running_mean, running_var, mean, rstd, new_mean,
//   new_var, slot 0 of max(8*max(1, min(max(R > 8192, C > 4*gpu.multiprocessors*max(1, min(256, 4096 // max(1,
//   R))))*(R*C > 12288*max(1, ceil_div(C, 256)))*ceil_div(R*C, 4096*max(1, ceil_div(C, 256))),
//   max((4*gpu.multiprocessors) // max(1, ceil_div(C, 256)), 4*(ceil_div(C, 256) > 4*gpu.multiprocessors))))*C,
//   8*max(1, min(max(R > 1024, ceil_div(C, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, R))), (R <=
//   384)*max(1, min(32, 3072 // max(1, R)))))*(R*C > 24576*max(1, ceil_div(ceil_div(C, 8), 32)))*ceil_div(R*C,
//   8192*max(1, ceil_div(ceil_div(C, 8), 32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C, 8), 32)),
//   4*(ceil_div(ceil_div(C, 8), 256) > 3*gpu.multiprocessors))))*C, 8*max(1, min(ceil_div(R*C, 8192*max(1, ceil_div(C,
//   64))), max((3*gpu.multiprocessors) // max(1, ceil_div(C, 64)), 4*(ceil_div(C, 64) > 3*gpu.multiprocessors))))*C)
//   bytes, slot 1 of max(4*max(1, min(max(R > 8192, C > 4*gpu.multiprocessors*max(1, min(256, 4096 // max(1, R))))*(R*C
//   > 12288*max(1, ceil_div(C, 256)))*ceil_div(R*C, 4096*max(1, ceil_div(C, 256))), max((4*gpu.multiprocessors) //
//   max(1, ceil_div(C, 256)), 4*(ceil_div(C, 256) > 4*gpu.multiprocessors))))*C, 4*max(1, min(max(R > 1024, ceil_div(C,
//   8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, R))), (R <= 384)*max(1, min(32, 3072 // max(1,
//   R)))))*(R*C > 24576*max(1, ceil_div(ceil_div(C, 8), 32)))*ceil_div(R*C, 8192*max(1, ceil_div(ceil_div(C, 8), 32))),
//   max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C, 8), 32)), 4*(ceil_div(ceil_div(C, 8), 256) >
//   3*gpu.multiprocessors))))*C, 4*max(1, min(ceil_div(R*C, 8192*max(1, ceil_div(C, 64))), max((3*gpu.multiprocessors)
//   // max(1, ceil_div(C, 64)), 4*(ceil_div(C, 64) > 3*gpu.multiprocessors))))*C) bytes, slot 2 of max(4*max(1,
//   min(max(R > 8192, C > 4*gpu.multiprocessors*max(1, min(256, 4096 // max(1, R))))*(R*C > 12288*max(1, ceil_div(C,
//   256)))*ceil_div(R*C, 4096*max(1, ceil_div(C, 256))), max((4*gpu.multiprocessors) // max(1, ceil_div(C, 256)),
//   4*(ceil_div(C, 256) > 4*gpu.multiprocessors))))*C, 4*max(1, min(max(R > 1024, ceil_div(C, 8) >
//   3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, R))), (R <= 384)*max(1, min(32, 3072 // max(1, R)))))*(R*C
//   > 24576*max(1, ceil_div(ceil_div(C, 8), 32)))*ceil_div(R*C, 8192*max(1, ceil_div(ceil_div(C, 8), 32))),
//   max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C, 8), 32)), 4*(ceil_div(ceil_div(C, 8), 256) >
//   3*gpu.multiprocessors))))*C, 4*max(1, min(ceil_div(R*C, 8192*max(1, ceil_div(C, 64))), max((3*gpu.multiprocessors)
//   // max(1, ceil_div(C, 64)), 4*(ceil_div(C, 64) > 3*gpu.multiprocessors))))*C) bytes, R, R, C, ceil_div(ceil_div(C,
//   8), max(1, ceil_div(ceil_div(C, 8), min(256, max(max(1, min(32, 1024 // max(1, R))), 32*max(R > 1024, ceil_div(C,
//   8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, R))), (R <= 384)*max(1, min(32, 3072 // max(1, R))))),
//   ceil_div(ceil_div(C, 8), 3*gpu.multiprocessors)))))), max(1, min(max(R > 1024, ceil_div(C, 8) >
//   3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, R))), (R <= 384)*max(1, min(32, 3072 // max(1, R)))))*(R*C
//   > 24576*max(1, ceil_div(ceil_div(C, 8), 32)))*ceil_div(R*C, 8192*max(1, ceil_div(ceil_div(C, 8), 32))),
//   max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C, 8), 32)), 4*(ceil_div(ceil_div(C, 8), 256) >
//   3*gpu.multiprocessors)))); if R*C < 2146435072, (C % 8) == 0, aligned(x, 16), aligned(running_mean, 16),
//   aligned(running_var, 16), aligned(mean, 16), aligned(rstd, 16), aligned(new_mean, 16), aligned(new_var, 16), R <
//   1073741824, aligned(weight, 16), aligned(bias, 16), aligned(y, 16)
// launch: segment 0, vec8_int32_folded_vec8_int32 1 of 3 on sm_90: grid ceil_div(ceil_div(C, 8), min(256, max(max(1,
//   min(32, 1024 // max(1, R))), 32*max(R > 1024, ceil_div(C, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 //
//   max(1, R))), (R <= 384)*max(1, min(32, 3072 // max(1, R))))), ceil_div(ceil_div(C, 8), 3*gpu.multiprocessors)))),
//   argument 15, 1; block 256, 1, 1; overlaps what is before; given x, running_mean, running_var, mean, rstd, new_mean,
//   new_var, slot 0 of max(8*max(1, min(max(R > 8192, C > 4*gpu.multiprocessors*max(1, min(256, 4096 // max(1,
//   R))))*(R*C > 12288*max(1, ceil_div(C, 256)))*ceil_div(R*C, 4096*max(1, ceil_div(C, 256))),
//   max((4*gpu.multiprocessors) // max(1, ceil_div(C, 256)), 4*(ceil_div(C, 256) > 4*gpu.multiprocessors))))*C,
//   8*max(1, min(max(R > 1024, ceil_div(C, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, R))), (R <=
//   384)*max(1, min(32, 3072 // max(1, R)))))*(R*C > 24576*max(1, ceil_div(ceil_div(C, 8), 32)))*ceil_div(R*C,
//   8192*max(1, ceil_div(ceil_div(C, 8), 32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C, 8), 32)),
//   4*(ceil_div(ceil_div(C, 8), 256) > 3*gpu.multiprocessors))))*C, 8*max(1, min(ceil_div(R*C, 8192*max(1, ceil_div(C,
//   64))), max((3*gpu.multiprocessors) // max(1, ceil_div(C, 64)), 4*(ceil_div(C, 64) > 3*gpu.multiprocessors))))*C)
//   bytes, slot 1 of max(4*max(1, min(max(R > 8192, C > 4*gpu.multiprocessors*max(1, min(256, 4096 // max(1, R))))*(R*C
//   > 12288*max(1, ceil_div(C, 256)))*ceil_div(R*C, 4096*max(1, ceil_div(C, 256))), max((4*gpu.multiprocessors) //
//   max(1, ceil_div(C, 256)), 4*(ceil_div(C, 256) > 4*gpu.multiprocessors))))*C, 4*max(1, min(max(R > 1024, ceil_div(C,
//   8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, R))), (R <= 384)*max(1, min(32, 3072 // max(1,
//   R)))))*(R*C > 24576*max(1, ceil_div(ceil_div(C, 8), 32)))*ceil_div(R*C, 8192*max(1, ceil_div(ceil_div(C, 8), 32))),
//   max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C, 8), 32)), 4*(ceil_div(ceil_div(C, 8), 256) >
//   3*gpu.multiprocessors))))*C, 4*max(1, min(ceil_div(R*C, 8192*max(1, ceil_div(C, 64))), max((3*gpu.multiprocessors)
//   // max(1, ceil_div(C, 64)), 4*(ceil_div(C, 64) > 3*gpu.multiprocessors))))*C) bytes, slot 2 of max(4*max(1,
//   min(max(R > 8192, C > 4*gpu.multiprocessors*max(1, min(256, 4096 // max(1, R))))*(R*C > 12288*max(1, ceil_div(C,
//   256)))*ceil_div(R*C, 4096*max(1, ceil_div(C, 256))), max((4*gpu.multiprocessors) // max(1, ceil_div(C, 256)),
//   4*(ceil_div(C, 256) > 4*gpu.multiprocessors))))*C, 4*max(1, min(max(R > 1024, ceil_div(C, 8) >
//   3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, R))), (R <= 384)*max(1, min(32, 3072 // max(1, R)))))*(R*C
//   > 24576*max(1, ceil_div(ceil_div(C, 8), 32)))*ceil_div(R*C, 8192*max(1, ceil_div(ceil_div(C, 8), 32))),
//   max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C, 8), 32)), 4*(ceil_div(ceil_div(C, 8), 256) >
//   3*gpu.multiprocessors))))*C, 4*max(1, min(ceil_div(R*C, 8192*max(1, ceil_div(C, 64))), max((3*gpu.multiprocessors)
//   // max(1, ceil_div(C, 64)), 4*(ceil_div(C, 64) > 3*gpu.multiprocessors))))*C) bytes, R, R, C, ceil_div(ceil_div(C,
//   8), max(1, ceil_div(ceil_div(C, 8), min(256, max(max(1, min(32, 1024 // max(1, R))), 32*max(R > 1024, ceil_div(C,
//   8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, R))), (R <= 384)*max(1, min(32, 3072 // max(1, R))))),
//   ceil_div(ceil_div(C, 8), 3*gpu.multiprocessors)))))), max(1, min(max(R > 1024, ceil_div(C, 8) >
//   3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, R))), (R <= 384)*max(1, min(32, 3072 // max(1, R)))))*(R*C
//   > 24576*max(1, ceil_div(ceil_div(C, 8), 32)))*ceil_div(R*C, 8192*max(1, ceil_div(ceil_div(C, 8), 32))),
//   max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C, 8), 32)), 4*(ceil_div(ceil_div(C, 8), 256) >
//   3*gpu.multiprocessors)))); if R*C < 2146435072, (C % 8) == 0, aligned(x, 16), aligned(running_mean, 16),
//   aligned(running_var, 16), aligned(mean, 16), aligned(rstd, 16), aligned(new_mean, 16), aligned(new_var, 16), R <
//   1073741824, aligned(y, 16)
// launch: segment 0, vec8_int32_scalar_int64 1 of 3 on sm_90: grid ceil_div(ceil_div(C, 8), min(256, max(max(1, min(32,
//   1024 // max(1, R))), 32*max(R > 1024, ceil_div(C, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1,
//   R))), (R <= 384)*max(1, min(32, 3072 // max(1, R))))), ceil_div(ceil_div(C, 8), 3*gpu.multiprocessors)))), argument
//   15, 1; block 256, 1, 1; overlaps what is before; given x, running_mean, running_var, mean, rstd, new_mean, new_var,
//   slot 0 of max(8*max(1, min(max(R > 8192, C > 4*gpu.multiprocessors*max(1, min(256, 4096 // max(1, R))))*(R*C >
//   12288*max(1, ceil_div(C, 256)))*ceil_div(R*C, 4096*max(1, ceil_div(C, 256))), max((4*gpu.multiprocessors) // max(1,
//   ceil_div(C, 256)), 4*(ceil_div(C, 256) > 4*gpu.multiprocessors))))*C, 8*max(1, min(max(R > 1024, ceil_div(C, 8) >
//   3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, R))), (R <= 384)*max(1, min(32, 3072 // max(1, R)))))*(R*C
//   > 24576*max(1, ceil_div(ceil_div(C, 8), 32)))*ceil_div(R*C, 8192*max(1, ceil_div(ceil_div(C, 8), 32))),
//   max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C, 8), 32)), 4*(ceil_div(ceil_div(C, 8), 256) >
//   3*gpu.multiprocessors))))*C, 8*max(1, min(ceil_div(R*C, 8192*max(1, ceil_div(C, 64))), max((3*gpu.multiprocessors)
//   // max(1, ceil_div(C, 64)), 4*(ceil_div(C, 64) > 3*gpu.multiprocessors))))*C) bytes, slot 1 of max(4*max(1,
//   min(max(R > 8192, C > 4*gpu.multiprocessors*max(1, min(256, 4096 // max(1, R))))*(R*C > 12288*max(1, ceil_div(C,
//   256)))*ceil_div(R*C, 4096*max(1, ceil_div(C, 256))), max((4*gpu.multiprocessors) // max(1, ceil_div(C, 256)),
//   4*(ceil_div(C, 256) > 4*gpu.multiprocessors))))*C, 4*max(1, min(max(R > 1024, ceil_div(C, 8) >
//   3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, R))), (R <= 384)*max(1, min(32, 3072 // max(1, R)))))*(R*C
//   > 24576*max(1, ceil_div(ceil_div(C, 8), 32)))*ceil_div(R*C, 8192*max(1, ceil_div(ceil_div(C, 8), 32))),
//   max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C, 8), 32)), 4*(ceil_div(ceil_div(C, 8), 256) >
//   3*gpu.multiprocessors))))*C, 4*max(1, min(ceil_div(R*C, 8192*max(1, ceil_div(C, 64))), max((3*gpu.multiprocessors)
//   // max(1, ceil_div(C, 64)), 4*(ceil_div(C, 64) > 3*gpu.multiprocessors))))*C) bytes, slot 2 of max(4*max(1,
//   min(max(R > 8192, C > 4*gpu.multiprocessors*max(1, min(256, 4096 // max(1, R))))*(R*C > 12288*max(1, ceil_div(C,
//   256)))*ceil_div(R*C, 4096*max(1, ceil_div(C, 256))), max((4*gpu.multiprocessors) // max(1, ceil_div(C, 256)),
//   4*(ceil_div(C, 256) > 4*gpu.multiprocessors))))*C, 4*max(1, min(max(R > 1024, ceil_div(C, 8) >
//   3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, R))), (R <= 384)*max(1, min(32, 3072 // max(1, R)))))*(R*C
//   > 24576*max(1, ceil_div(ceil_div(C, 8), 32)))*ceil_div(R*C, 8192*max(1, ceil_div(ceil_div(C, 8), 32))),
//   max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C, 8), 32)), 4*(ceil_div(ceil_div(C, 8), 256) >
//   3*gpu.multiprocessors))))*C, 4*max(1, min(ceil_div(R*C, 8192*max(1, ceil_div(C, 64))), max((3*gpu.multiprocessors)
//   // max(1, ceil_div(C, 64)), 4*(ceil_div(C, 64) > 3*gpu.multiprocessors))))*C) bytes, R, R, C, ceil_div(ceil_div(C,
//   8), max(1, ceil_div(ceil_div(C, 8), min(256, max(max(1, min(32, 1024 // max(1, R))), 32*max(R > 1024, ceil_div(C,
//   8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, R))), (R <= 384)*max(1, min(32, 3072 // max(1, R))))),
//   ceil_div(ceil_div(C, 8), 3*gpu.multiprocessors)))))), max(1, min(max(R > 1024, ceil_div(C, 8) >
//   3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, R))), (R <= 384)*max(1, min(32, 3072 // max(1, R)))))*(R*C
//   > 24576*max(1, ceil_div(ceil_div(C, 8), 32)))*ceil_div(R*C, 8192*max(1, ceil_div(ceil_div(C, 8), 32))),
//   max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C, 8), 32)), 4*(ceil_div(ceil_div(C, 8), 256) >
//   3*gpu.multiprocessors)))); if R*C < 2146435072, (C % 8) == 0, aligned(x, 16), aligned(running_mean, 16),
//   aligned(running_var, 16), aligned(mean, 16), aligned(rstd, 16), aligned(new_mean, 16), aligned(new_var, 16), R <
//   1073741824
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreads = 256;
constexpr int kVec = 8;  // columns per thread
constexpr int kUnroll = 4;  // rows in flight per thread
constexpr int kTogether = 4;  // of them that are loaded or left out without a branch

FUSEBUILD_KERNEL(kThreads, 3)
reduction_outer_3a85691fccdfc30c(
    const __nv_bfloat16* T0,  // x: bfloat16[R, C]
    const float* T3,  // running_mean: float[C]
    const float* T4,  // running_var: float[C]
    float* T6,  // mean: float[C]
    float* T14,  // rstd: float[C]
    float* T26,  // new_mean: float[C]
    float* T32,  // new_var: float[C]
    double* __restrict__ P6,  // partial results of mean
    float* __restrict__ P7,  // partial results of m2
    float* __restrict__ P8,  // partial results of count
    int64_t s9,  // R
    int64_t n0,  // R
    int64_t n1,  // C
    int64_t block_width,  // threads side by side
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

  fb::Moments<float> w6[kVec];
  Index read = 0;  // rows that the thread has read
  Index centered = 1;  // how many of them the shifts are the means of
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
    fb::recenter(centered, read, w6);
    read += kUnroll;
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const bool is_there = u * apart < left;
      if (u % kTogether == 0 && !is_there) break;
      if (!is_there) continue;
      const bool is_first = u == 0 && top == first;
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(c0[u]);
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t0 = v0[k];
        const float t5 = fb::cast<float>(t0);  // xf, batchnorm_train.yaml:15
        w6[k].add(t5, is_first);
      }
    }
  }
  const int64_t count = fb::steps_in_turns<Index>(first, end, height, kUnroll, splits);
  auto a6 = fb::states(w6, count);
  float q3[kVec];
  float q4[kVec];
  if (y == 0 && has_columns && splits == 1) {  // on their way while results meet
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      q3[k] = T3[inner + k];
      q4[k] = T4[inner + k];
    }
  }
  fb::reduce_columns_of<kThreads>(x, y, width, height, fb::accumulator<fb::Welford<float>>(a6));
  if (y != 0 || !has_columns) return;
  if (splits > 1) {  // reduction_finish combines what they leave in order
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const int64_t place = int64_t(split) * all * kVec + vector * kVec + k;
      P6[place] = a6[k].v0;
      P7[place] = a6[k].v1;
      P8[place] = a6[k].v2;
    }
    return;
  }
  fb::Vec<float, kVec> o6;
  fb::Vec<float, kVec> o14;
  fb::Vec<float, kVec> o26;
  fb::Vec<float, kVec> o32;
  FUSEBUILD_UNROLL
  for (int k = 0; k < kVec; ++k) {
    const float t6 = fb::Welford<float>::mean(a6[k]);  // mean, batchnorm_train.yaml:16
    const float t7 = a6[k].v1;  // m2, batchnorm_train.yaml:16
    const float t3 = q3[k];  // running_mean
    const float t4 = q4[k];  // running_var
    const int64_t t10 = s9;  // count, batchnorm_train.yaml:16
    const float t11 = t7 / fb::cast<float>(t10);  // batchnorm_train.yaml:17
    const float t13 = t11 + 1e-05f;  // batchnorm_train.yaml:17
    const float t14 = fb::rsqrt(t13);  // rstd, batchnorm_train.yaml:17
    const float t23 = t6 - t3;  // batchnorm_train.yaml:19
    const float t25 = 0.1f * t23;  // batchnorm_train.yaml:19
    const float t26 = t3 + t25;  // new_mean, batchnorm_train.yaml:19
    const int64_t t28 = fb::sub(t10, int64_t(1));  // batchnorm_train.yaml:20
    const float t29 = t7 / fb::cast<float>(t28);  // batchnorm_train.yaml:20
    const float t30 = t29 - t4;  // batchnorm_train.yaml:20
    const float t31 = 0.1f * t30;  // batchnorm_train.yaml:20
    const float t32 = t4 + t31;  // new_var, batchnorm_train.yaml:20
    o6[k] = t6;
    o14[k] = t14;
    o26[k] = t26;
    o32[k] = t32;
  }
  fb::store(T6 + inner, o6);
  fb::store(T14 + inner, o14);
  fb::store(T26 + inner, o26);
  fb::store(T32 + inner, o32);
}

FUSEBUILD_ENTRY(reduction_outer_3a85691fccdfc30c)
