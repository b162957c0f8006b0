// bshd_to_bhsd.yaml, segment 0: pointwise, variant walks_int32
// segment fids to original fids: {0: 0, 1: 1}
// schedule: threads=128 rows=16 unroll=4 min_blocks=12 walked=1
// launch: segment 0, walks_int32 on sm_90: grid ceil_div(B*S*D*ceil_div(H, max(1, argument 12)), 128), 1, 1; block 128,
//   1, 1; overlaps what is before; given x, y, B, H, S, D, S*H*D, D, H*D, 4294967295 // max(D, 1), 4294967295 //
//   max(B*S*D, 1), ceil_div(H, max(1, ceil_div(H, max(1, min(16, (B*H*S*D) // (512*gpu.multiprocessors)))))),
//   4294967295 // max(S*D, 1); if B*H*S*D < 2146435072, S*D >= 192, H >= 8
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreads = 128;
constexpr int kVec = 1;  // neighbouring columns per access
constexpr int kUnroll = 4;  // rows in flight per thread and tensor

FUSEBUILD_KERNEL(kThreads, 12)
pointwise_walks_7fa044ae58f058b5(
    const __nv_bfloat16* T0,  // x: bfloat16[B, S, H, D]
    __nv_bfloat16* __restrict__ T1,  // y: bfloat16[B, H, S, D]
    int64_t n0,  // B
    int64_t n1,  // H
    int64_t n2,  // S
    int64_t n3,  // D
    int64_t T0_stride0,  // stride of dim 0, in elements
    int64_t T0_stride1,  // stride of dim 2, in elements
    int64_t T0_stride2,  // stride of dim 1, in elements
    int64_t n3_reciprocal,  // reciprocal of n3
    int64_t others_reciprocal,  // reciprocal of others
    int64_t each,  // of the rows of a thread
    int64_t columns_reciprocal) {  // reciprocal of columns
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const Index rows = Index(n1), columns = Index(n2) * Index(n3);
  constexpr Index step = 1;
  const Index others = Index(n0) * columns;
  const fb::Divided own = fb::divided(fb::block_x() * kThreads + fb::thread_x(), others, others_reciprocal);
  const Index first_row = own.quotient * Index(each), next = first_row + Index(each);
  const Index end = next < rows ? next : rows;
  const fb::Divided place = fb::divided(own.remainder, columns, columns_reciprocal);
  const Index before = place.quotient, i = place.remainder;
  if (i >= columns || first_row >= end || before >= Index(n0)) return;
  const Index i3 = fb::divided(i, Index(n3), n3_reciprocal).remainder;
  const Index i2 = fb::divided(i, Index(n3), n3_reciprocal).quotient;
  // The first rows are on their way before anything is computed, and the positions of the next ones.
  fb::Packed<__nv_bfloat16, kVec> p0[kUnroll];
  FUSEBUILD_UNROLL
  for (int u = 0; u < kUnroll; ++u) {
    const Index row = first_row + u * step;
    if (row >= end) break;
    p0[u] =
        fb::load_packed<kVec>(
        T0 + (before * Index(T0_stride0) + row * Index(T0_stride1) + i2 * Index(T0_stride2) + i3));
  }

  for (Index top = first_row; top < end;) {
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index row = top + u * step;
      if (row >= end) break;
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(p0[u]);
      fb::Vec<__nv_bfloat16, kVec> v1;
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t0 = v0[k];
        v1[k] = t0;
      }
      fb::store(T1 + ((before * Index(n1) + row) * Index(n2) * Index(n3) + i), v1);
    }
    top += kUnroll * step;
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index row = top + u * step;
      if (row >= end) break;
      p0[u] =
          fb::load_packed<kVec>(
          T0 + (before * Index(T0_stride0) + row * Index(T0_stride1) + i2 * Index(T0_stride2) + i3));
    }
  }
}

FUSEBUILD_ENTRY(pointwise_walks_7fa044ae58f058b5)
