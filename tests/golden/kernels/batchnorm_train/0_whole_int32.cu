// batchnorm_train.yaml, segment 0: outer_persistent, variant whole_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 6: 8, 14: 13, 26: 20, 32: 26, 33: 27}
// schedule: threads=512 unroll=8 batch=4 elements=16384
// launch: segment 0, whole_int32 on sm_90: grid ceil_div(C, argument 14), 1, 1; block 512, 1, 1; given x, weight, bias,
//   running_mean, running_var, mean, rstd, new_mean, new_var, y, R, R, C, min(max(1, 16384 // max(1, R)), 512,
//   max(ceil_div(C, 2*gpu.multiprocessors), min(16, max(1, (12288*(262144 < R*C) + 4096) // max(1, R)), max(1, C))));
//   if R*C < 2146435072, 0 < R, R*max(14*(262144 < R*C) + 2, 1) <= (12288*(262144 < R*C) + 4096), R*C*(8 < R) <=
//   2097152
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreads = 512;
constexpr int kVec = 4;  // elements of a channel that a thread takes at a time
constexpr int kUnroll = 8;  // elements in flight per thread and tensor
constexpr int kMost = 16384;  // elements of a block, at most

FUSEBUILD_KERNEL(kThreads, 3)
outer_persistent_f77dc3b0bf0ff605(
    const __nv_bfloat16* T0,  // x: bfloat16[R, C]
    const float* T1,  // weight: float[C]
    const float* T2,  // bias: float[C]
    const float* T3,  // running_mean: float[C]
    const float* T4,  // running_var: float[C]
    float* T6,  // mean: float[C]
    float* T14,  // rstd: float[C]
    float* T26,  // new_mean: float[C]
    float* T32,  // new_var: float[C]
    __nv_bfloat16* T33,  // y: bfloat16[R, C]
    int64_t s9,  // R
    int64_t n0,  // R
    int64_t n1,  // C
    int64_t block_channels) {  // channels of a block, neighbours in memory
  const Index channels = n1;
  const Index inner = 1;  // elements of a channel that are neighbours in memory
  const Index first = Index(fb::block_x()) * Index(block_channels), begin = first * inner;
  const Index own = fb::smaller(int(block_channels), channels - first);  // channels of the block
  const Index each = n0 * inner, elements = each * own;  // of a channel, and of all of them

  int shift = 0;  // 2 to it threads share a channel
  while (Index(block_channels) << (shift + 1) <= kThreads && kVec << shift < each) ++shift;
  const int width = 1 << shift, lane = fb::thread_x() & (width - 1);
  const bool active = (fb::thread_x() >> shift) < own;  // spare threads repeat a channel and store nothing
  FUSEBUILD_SHARED(__nv_bfloat16, tile0, kMost);
  FUSEBUILD_SHARED(float, of_channel1, kThreads);
  FUSEBUILD_SHARED(float, of_channel2, kThreads);
  FUSEBUILD_SHARED(float, of_channel6, kThreads);
  FUSEBUILD_SHARED(float, of_channel14, kThreads);
  const Index slot = active ? fb::thread_x() >> shift : own - 1, channel = first + slot;
  const float t1 = T1[channel];  // weight
  const float t2 = T2[channel];  // bias
  const float t3 = T3[channel];  // running_mean
  const float t4 = T4[channel];  // running_var

  fb::RunWalk copied(fb::thread_x(), kThreads, own * inner, channels * inner);
  for (Index top = fb::thread_x(); top < elements; top += kUnroll * kThreads) {
    __nv_bfloat16 p0[kUnroll];
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      if (top + u * kThreads >= elements) break;
      const Index at = begin + copied.place();
      p0[u] = T0[at];
      copied.next();
    }
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index place = top + u * kThreads;
      if (place >= elements) break;
      tile0[place] = p0[u];
    }
  }
  fb::sync_block();

  fb::BatchMoments<float, Index> w6;
  fb::RunWalk walk(lane, width, inner, own * inner);
  for (Index element = lane; element < each; element += kVec * width) {
    Index places[kVec];
    unsigned inside = 0;  // bit k: the thread has as many elements
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const bool is_there = k == 0 || element + k * width < each;
      places[k] = is_there ? slot * inner + walk.place() : places[0];
      inside |= unsigned(is_there) << k;
      walk.next();
    }
    fb::Vec<float, kVec> e6;
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const Index place = places[k];
      const __nv_bfloat16 t0 = tile0[place];  // x
      const float t5 = fb::cast<float>(t0);  // xf, batchnorm_train.yaml:15
      e6[k] = t5;
    }
    w6.add(e6, inside);
  }
  auto a6 = w6.state<fb::Welford<float>::State>(fb::Welford<float>::identity());
  fb::reduce_row_of<kThreads>(width, fb::accumulator<fb::Welford<float>>(a6));
  if (active && lane == 0) {
    const float t6 = fb::Welford<float>::mean(a6);  // mean, batchnorm_train.yaml:16
    const float t7 = a6.v1;  // m2, batchnorm_train.yaml:16
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
    T6[channel] = t6;
    T14[channel] = t14;
    T26[channel] = t26;
    T32[channel] = t32;
    of_channel1[slot] = t1;
    of_channel2[slot] = t2;
    of_channel6[slot] = t6;
    of_channel14[slot] = t14;
  }
  fb::sync_block();

  fb::ChannelWalk left(fb::thread_x(), kThreads, own, inner, channels * inner);
  for (Index place = fb::thread_x(); place < elements; place += kThreads) {
    const Index at = begin + left.place();
    const int slot = left.channel();
    left.next();
    const __nv_bfloat16 t0 = tile0[place];  // x
    const float t1 = of_channel1[slot];  // weight
    const float t2 = of_channel2[slot];  // bias
    const float t6 = of_channel6[slot];  // mean
    const float t14 = of_channel14[slot];  // rstd
    const float t5 = fb::cast<float>(t0);  // xf, batchnorm_train.yaml:15
    const float t16 = t5 - t6;  // batchnorm_train.yaml:18
    const float t18 = t16 * t14;  // batchnorm_train.yaml:18
    const float t20 = t18 * t1;  // batchnorm_train.yaml:18
    const float t22 = t20 + t2;  // y, batchnorm_train.yaml:18
    const __nv_bfloat16 t33 = fb::cast<__nv_bfloat16>(t22);  // batchnorm_train.yaml:22
    T33[at] = t33;
  }
}

FUSEBUILD_ENTRY(outer_persistent_f77dc3b0bf0ff605)
