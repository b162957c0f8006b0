// batchnorm_train.yaml, segment 0: reduction, variant vec8_int32_split66
// segment fids to original fids: {0: 0, 1: 3, 2: 4, 4: 8, 12: 13, 16: 20, 22: 26}
// schedule: block_x=32 block_y=8 unroll=8 splits=66
// launch: segment 0, vec8_int32_split66 1 of 2 on sm_90: grid ceil_div(C, 256), 66, 1; block 32, 8, 1; given x, slot 0
//   of max(528*C, 128*C) bytes, slot 1 of max(264*C, 64*C) bytes, slot 2 of max(264*C, 64*C) bytes, R, C; if R*C <
//   2146435072, (C % 8) == 0, aligned(x, 16), aligned(running_mean, 16), aligned(running_var, 16), aligned(mean, 16),
//   aligned(rstd, 16), aligned(new_mean, 16), aligned(new_var, 16)
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kBlockX = 32, kBlockY = 8;  // threads side by side, threads that share columns
constexpr int kVec = 8;  // columns per thread
constexpr int kUnroll = 8;  // rows in flight per thread
constexpr int kSplits = 66;  // blocks that take a column's rows in turns; reduction_finish combines them in order

FUSEBUILD_KERNEL(kBlockX * kBlockY, 2)
reduction_outer_df75dd9e51554458(
    const __nv_bfloat16* T0,  // x: bfloat16[R, C]
    double* __restrict__ P4,  // partial results of mean
    float* __restrict__ P5,  // partial results of m2
    float* __restrict__ P6,  // partial results of count
    int64_t n0,  // R
    int64_t n1) {  // C
  fb::let_next_kernel_start();  // it waits for the end of this one
  const int64_t columns = n1;
  const Index depth = n0;
  const Index inner = (Index(fb::block_x()) * kBlockX + fb::thread_x()) * kVec;
  const int split = fb::block_y();
  const Index end = inner < columns ? depth : 0;  // threads beside the columns have no rows
  const Index first = Index(split) * (kUnroll * kBlockY) + fb::thread_y();

  fb::Moments<float> w4[kVec];
  Index centered = 1;  // how many elements the shifts are the means of
  for (Index top = first; top < end; top += kSplits * kUnroll * kBlockY) {
    fb::Packed<__nv_bfloat16, kVec> c0[kUnroll];
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index r = top + u * kBlockY;
      if (r >= end) break;
      c0[u] = fb::load_packed<kVec>(T0 + r * n1 + inner);
    }
    fb::recenter(centered, (top - first) / (kSplits * kBlockY), w4);
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index r = top + u * kBlockY;
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
  const int64_t count = fb::steps_in_turns<Index>(first, end, kBlockY, kUnroll, kSplits);
  auto a4 = fb::states(w4, count);
  fb::reduce_columns<kBlockX, kBlockY>(fb::accumulator<fb::Welford<float>>(a4));
  if (fb::thread_y() != 0 || inner >= columns) return;
  FUSEBUILD_UNROLL
  for (int k = 0; k < kVec; ++k) {
    P4[split * n1 + inner + k] = a4[k].v0;
    P5[split * n1 + inner + k] = a4[k].v1;
    P6[split * n1 + inner + k] = a4[k].v2;
  }
}

FUSEBUILD_ENTRY(reduction_outer_df75dd9e51554458)
