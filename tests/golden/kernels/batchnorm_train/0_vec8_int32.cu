// batchnorm_train.yaml, segment 0: reduction, variant vec8_int32
// segment fids to original fids: {0: 0, 1: 3, 2: 4, 4: 8, 12: 13, 16: 20, 22: 26}
// schedule: threads=256 unroll=4 is_split=True walked=[] always_split=False widest=0
// launch: segment 0, vec8_int32 1 of 2 on sm_90: grid ceil_div(ceil_div(C, 8), min(256, max(max(1, min(32, 1024 //
//   max(1, R))), 32*max(R > 1024, ceil_div(C, 8) > 3*gpu.multiprocessors*max(1, min(32, 1024 // max(1, R)))),
//   ceil_div(ceil_div(C, 8), 3*gpu.multiprocessors)))), argument 15, 1; block 256, 1, 1; given x, running_mean,
//   running_var, mean, rstd, new_mean, new_var, slot 0 of max(8*max(1, min(max(R > 8192, C >
//   4*gpu.multiprocessors*max(1, min(256, 4096 // max(1, R))))*(R*C > 12288*max(1, ceil_div(C, 256)))*ceil_div(R*C,
//   4096*max(1, ceil_div(C, 256))), max((4*gpu.multiprocessors) // max(1, ceil_div(C, 256)), 4*(ceil_div(C, 256) >
//   4*gpu.multiprocessors))))*C, 8*max(1, min(max(R > 1024, ceil_div(C, 8) > 3*gpu.multiprocessors*max(1, min(32, 1024
//   // max(1, R))))*(R*C > 24576*max(1, ceil_div(ceil_div(C, 8), 32)))*ceil_div(R*C, 8192*max(1, ceil_div(ceil_div(C,
//   8), 32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C, 8), 32)), 4*(ceil_div(ceil_div(C, 8), 256) >
//   3*gpu.multiprocessors))))*C, 8*max(1, min(ceil_div(R*C, 8192*max(1, ceil_div(C, 64))), max((3*gpu.multiprocessors)
//   // max(1, ceil_div(C, 64)), 4*(ceil_div(C, 64) > 3*gpu.multiprocessors))))*C) bytes, slot 1 of max(4*max(1,
//   min(max(R > 8192, C > 4*gpu.multiprocessors*max(1, min(256, 4096 // max(1, R))))*(R*C > 12288*max(1, ceil_div(C,
//   256)))*ceil_div(R*C, 4096*max(1, ceil_div(C, 256))), max((4*gpu.multiprocessors) // max(1, ceil_div(C, 256)),
//   4*(ceil_div(C, 256) > 4*gpu.multiprocessors))))*C, 4*max(1, min(max(R > 1024, ceil_div(C, 8) >
//   3*gpu.multiprocessors*max(1, min(32, 1024 // max(1, R))))*(R*C > 24576*max(1, ceil_div(ceil_div(C, 8),
//   32)))*ceil_div(R*C, 8192*max(1, ceil_div(ceil_div(C, 8), 32))), max((3*gpu.multiprocessors) // max(1,
//   ceil_div(ceil_div(C, 8), 32)), 4*(ceil_div(ceil_div(C, 8), 256) > 3*gpu.multiprocessors))))*C, 4*max(1,
//   min(ceil_div(R*C, 8192*max(1, ceil_div(C, 64))), max((3*gpu.multiprocessors) // max(1, ceil_div(C, 64)),
//   4*(ceil_div(C, 64) > 3*gpu.multiprocessors))))*C) bytes, slot 2 of max(4*max(1, min(max(R > 8192, C >
//   4*gpu.multiprocessors*max(1, min(256, 4096 // max(1, R))))*(R*C > 12288*max(1, ceil_div(C, 256)))*ceil_div(R*C,
//   4096*max(1, ceil_div(C, 256))), max((4*gpu.multiprocessors) // max(1, ceil_div(C, 256)), 4*(ceil_div(C, 256) >
//   4*gpu.multiprocessors))))*C, 4*max(1, min(max(R > 1024, ceil_div(C, 8) > 3*gpu.multiprocessors*max(1, min(32, 1024
//   // max(1, R))))*(R*C > 24576*max(1, ceil_div(ceil_div(C, 8), 32)))*ceil_div(R*C, 8192*max(1, ceil_div(ceil_div(C,
//   8), 32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C, 8), 32)), 4*(ceil_div(ceil_div(C, 8), 256) >
//   3*gpu.multiprocessors))))*C, 4*max(1, min(ceil_div(R*C, 8192*max(1, ceil_div(C, 64))), max((3*gpu.multiprocessors)
//   // max(1, ceil_div(C, 64)), 4*(ceil_div(C, 64) > 3*gpu.multiprocessors))))*C) bytes, R, R, C, ceil_div(ceil_div(C,
//   8), max(1, ceil_div(ceil_div(C, 8), min(256, max(max(1, min(32, 1024 // max(1, R))), 32*max(R > 1024, ceil_div(C,
//   8) > 3*gpu.multiprocessors*max(1, min(32, 1024 // max(1, R)))), ceil_div(ceil_div(C, 8),
//   3*gpu.multiprocessors)))))), max(1, min(max(R > 1024, ceil_div(C, 8) > 3*gpu.multiprocessors*max(1, min(32, 1024 //
//   max(1, R))))*(R*C > 24576*max(1, ceil_div(ceil_div(C, 8), 32)))*ceil_div(R*C, 8192*max(1, ceil_div(ceil_div(C, 8),
//   32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C, 8), 32)), 4*(ceil_div(ceil_div(C, 8), 256) >
//   3*gpu.multiprocessors)))); if R*C < 2146435072, (C % 8) == 0, aligned(x, 16), aligned(running_mean, 16),
//   aligned(running_var, 16), aligned(mean, 16), aligned(rstd, 16), aligned(new_mean, 16), aligned(new_var, 16), R <
//   1073741824
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreads = 256;
constexpr int kVec = 8;  // columns per thread
constexpr int kUnroll = 4;  // rows in flight per thread

FUSEBUILD_KERNEL(kThreads, 3)
reduction_outer_8900077dc58ee3df(
    const __nv_bfloat16* T0,  // x: bfloat16[R, C]
    const float* T1,  // running_mean: float[C]
    const float* T2,  // running_var: float[C]
    float* T4,  // mean: float[C]
    float* T12,  // rstd: float[C]
    float* T16,  // new_mean: float[C]
    float* T22,  // new_var: float[C]
    double* __restrict__ P4,  // partial results of mean
    float* __restrict__ P5,  // partial results of m2
    float* __restrict__ P6,  // partial results of count
    int64_t s7,  // R
    int64_t n0,  // R
    int64_t n1,  // C
    int64_t block_width,  // threads side by side
    int64_t splits) {  // blocks that share a reduction
  fb::let_next_kernel_start();  // it waits for the end of this one
  const Index columns = n1;
  const Index depth = n0;
  const Index vectors = columns / kVec;
  const Index all = vectors;
  const int width = block_width;  // threads side by side
  const int height = kThreads / width;  // threads that share columns
  const int x = fb::thread_x() % width, y = fb::thread_x() / width;
  const Index vector = Index(fb::block_x()) * width + x;
  const Index inner = vector * kVec;
  const bool has_columns = vector < all && y < height;
  const int split = fb::block_y();  // of the blocks that take a column's rows in turns
  const Index end = has_columns ? depth : 0;
  const Index first = Index(split) * (kUnroll * height) + y;
  const Index step = Index(splits) * kUnroll * height;

  fb::Moments<float> w4[kVec];
  Index read = 0;  // rows that the thread has read
  Index centered = 1;  // how many of them the shifts are the means of
  for (Index top = first; top < end; top += step) {
    fb::Packed<__nv_bfloat16, kVec> c0[kUnroll];
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index r = top + u * height;
      if (r >= end) break;
      c0[u] = fb::load_packed<kVec>(T0 + r * n1 + inner);
    }
    fb::recenter(centered, read, w4);
    read += kUnroll;
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index r = top + u * height;
      if (r >= end) break;
      const bool is_first = u == 0 && top == first;
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(c0[u]);
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t0 = v0[k];
        const float t3 = fb::cast<float>(t0);  // xf, batchnorm_train.yaml:15
        w4[k].add(t3, is_first);
      }
    }
  }
  const int64_t count = fb::steps_in_turns<Index>(first, end, height, kUnroll, splits);
  auto a4 = fb::states(w4, count);
  float q1[kVec];
  float q2[kVec];
  if (y == 0 && has_columns && splits == 1) {  // on their way while results meet
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      q1[k] = T1[inner + k];
      q2[k] = T2[inner + k];
    }
  }
  fb::reduce_columns_of<kThreads>(x, y, width, height, fb::accumulator<fb::Welford<float>>(a4));
  if (y != 0 || !has_columns) return;
  if (splits > 1) {  // reduction_finish combines what they leave in order
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const int64_t place = int64_t(split) * all * kVec + vector * kVec + k;
      P4[place] = a4[k].v0;
      P5[place] = a4[k].v1;
      P6[place] = a4[k].v2;
    }
    return;
  }
  fb::Vec<float, kVec> o4;
  fb::Vec<float, kVec> o12;
  fb::Vec<float, kVec> o16;
  fb::Vec<float, kVec> o22;
  FUSEBUILD_UNROLL
  for (int k = 0; k < kVec; ++k) {
    const float t4 = fb::Welford<float>::mean(a4[k]);  // mean, batchnorm_train.yaml:16
    const float t5 = a4[k].v1;  // m2, batchnorm_train.yaml:16
    const float t1 = q1[k];  // running_mean
    const float t2 = q2[k];  // running_var
    const int64_t t8 = s7;  // count, batchnorm_train.yaml:16
    const float t9 = t5 / fb::cast<float>(t8);  // batchnorm_train.yaml:17
    const float t11 = t9 + 1e-05f;  // batchnorm_train.yaml:17
    const float t12 = fb::rsqrt(t11);  // rstd, batchnorm_train.yaml:17
    const float t13 = t4 - t1;  // batchnorm_train.yaml:19
    const float t15 = 0.1f * t13;  // batchnorm_train.yaml:19
    const float t16 = t1 + t15;  // new_mean, batchnorm_train.yaml:19
    const int64_t t18 = fb::sub(t8, int64_t(1));  // batchnorm_train.yaml:20
    const float t19 = t5 / fb::cast<float>(t18);  // batchnorm_train.yaml:20
    const float t20 = t19 - t2;  // batchnorm_train.yaml:20
    const float t21 = 0.1f * t20;  // batchnorm_train.yaml:20
    const float t22 = t2 + t21;  // new_var, batchnorm_train.yaml:20
    o4[k] = t4;
    o12[k] = t12;
    o16[k] = t16;
    o22[k] = t22;
  }
  fb::store(T4 + inner, o4);
  fb::store(T12 + inner, o12);
  fb::store(T16 + inner, o16);
  fb::store(T22 + inner, o22);
}

FUSEBUILD_ENTRY(reduction_outer_8900077dc58ee3df)
