// cast<To>(From) for every pair of dtypes, one value at a time and in vectors of eight.

#include <fusebuild/kernel.cuh>

using namespace fusebuild;

template <typename To, typename From>
FUSEBUILD_DEVICE void cast_all(const From* in, To* out, int64_t n) {
  const int64_t i = (int64_t(block_x()) * 64 + thread_x()) * 8;
  if (i >= n) return;
  for (int k = 0; k < 8; ++k) out[i + k] = cast<To>(in[i + k]);
  store(out + n + i, cast<To>(load<8>(in + i)));
}

#define CAST_KERNEL(From, from, To, to)                                                                      \
  FUSEBUILD_KERNEL(64, 1) cast_##from##_##to(const From* __restrict__ in, To* __restrict__ out, int64_t n) { \
    cast_all<To>(in, out, n);                                                                                \
  }                                                                                                          \
  FUSEBUILD_ENTRY(cast_##from##_##to)

#define CAST_KERNELS(From, from)                   \
  CAST_KERNEL(From, from, double, double)          \
  CAST_KERNEL(From, from, float, float)            \
  CAST_KERNEL(From, from, __half, half)            \
  CAST_KERNEL(From, from, __nv_bfloat16, bfloat16) \
  CAST_KERNEL(From, from, int64_t, int64)          \
  CAST_KERNEL(From, from, int32_t, int32)          \
  CAST_KERNEL(From, from, bool, bool)

CAST_KERNELS(double, double)
CAST_KERNELS(float, float)
CAST_KERNELS(__half, half)
CAST_KERNELS(__nv_bfloat16, bfloat16)
CAST_KERNELS(int64_t, int64)
CAST_KERNELS(int32_t, int32)
CAST_KERNELS(bool, bool)
