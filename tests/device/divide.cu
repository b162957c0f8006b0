// The functions of divide.cuh, one number a thread.

#include <fusebuild/kernel.cuh>

FUSEBUILD_KERNEL(128, 1)
divide(const int32_t* __restrict__ numbers, const int32_t* __restrict__ sizes,
       const int64_t* __restrict__ reciprocals, int32_t* __restrict__ quotients,
       int32_t* __restrict__ remainders, int64_t count) {
  const int64_t i = int64_t(fb::block_x()) * 128 + fb::thread_x();
  if (i >= count) return;
  const fb::Divided found = fb::divided(numbers[i], sizes[i], reciprocals[i]);
  quotients[i] = found.quotient;
  remainders[i] = found.remainder;
}
FUSEBUILD_ENTRY(divide)

FUSEBUILD_KERNEL(128, 1)
nearest_index(const int64_t* __restrict__ bounds, int32_t* __restrict__ out, int64_t count) {
  const int64_t i = int64_t(fb::block_x()) * 128 + fb::thread_x();
  if (i < count) out[i] = fb::nearest_index(bounds[i]);
}
FUSEBUILD_ENTRY(nearest_index)

FUSEBUILD_KERNEL(128, 1)
count_on(int32_t* __restrict__ coordinates, const int32_t* __restrict__ steps,
         const int32_t* __restrict__ sizes, int32_t* __restrict__ carries, int64_t count) {
  const int64_t i = int64_t(fb::block_x()) * 128 + fb::thread_x();
  if (i < count) carries[i] = fb::count_on(coordinates[i], steps[i], sizes[i]);
}
FUSEBUILD_ENTRY(count_on)

FUSEBUILD_KERNEL(128, 1)
near_inside(const int64_t* __restrict__ indices, const int32_t* __restrict__ sizes, int64_t* __restrict__ out,
            int64_t count) {
  const int64_t i = int64_t(fb::block_x()) * 128 + fb::thread_x();
  if (i < count) out[i] = fb::near_inside(indices[i], sizes[i]);
}
FUSEBUILD_ENTRY(near_inside)
