// Parts of vectors, stored by few words.

#include <fusebuild/kernel.cuh>

using namespace fusebuild;

// Stores those of an aligned vector's elements that have a bit in `inside`.
template <int N, typename T>
FUSEBUILD_DEVICE void store_part(const T* in, T* out, unsigned inside) {
  if (thread_x() == 0) store_side(out, load_elements<N>(in), inside);
}

#define KERNELS(name, T, N)                                                     \
  FUSEBUILD_KERNEL(32, 1)                                                       \
  store_##name(const T* __restrict__ in, T* __restrict__ out, int64_t inside) { \
    store_part<N>(in, out, unsigned(inside));                                   \
  }                                                                             \
  FUSEBUILD_ENTRY(store_##name)

KERNELS(half, __half, 8)
KERNELS(bfloat16, __nv_bfloat16, 8)
KERNELS(float, float, 4)
KERNELS(double, double, 2)
