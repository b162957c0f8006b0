// The quotients and remainders of divisor.cuh, a number a thread.

#include <fusebuild/kernel.cuh>

FUSEBUILD_KERNEL(128, 1)
quotients(int64_t* __restrict__ out, int64_t* __restrict__ rest, const int64_t* __restrict__ numbers,
          int64_t count, int64_t divisor) {
  const int64_t i = int64_t(fb::block_x()) * 128 + fb::thread_x();
  const fb::Divisor by(divisor);
  if (i < count) {
    out[i] = int(numbers[i]) / by;
    rest[i] = int(numbers[i]) % by;
  }
}
FUSEBUILD_ENTRY(quotients)

FUSEBUILD_KERNEL(128, 1)
near_quotients(int64_t* __restrict__ out, int64_t* __restrict__ rest, const int64_t* __restrict__ numbers,
               int64_t count, int64_t first, int64_t divisor) {
  const int64_t i = int64_t(fb::block_x()) * 128 + fb::thread_x();
  const fb::NearDivisor by(first, divisor);
  if (i < count) {
    out[i] = numbers[i] / by;
    rest[i] = numbers[i] % by;
  }
}
FUSEBUILD_ENTRY(near_quotients)

FUSEBUILD_KERNEL(128, 1)
quick_quotients(int64_t* __restrict__ out, int64_t* __restrict__ rest, const int64_t* __restrict__ numbers,
                int64_t count, int64_t divisor) {
  const int64_t i = int64_t(fb::block_x()) * 128 + fb::thread_x();
  const fb::QuickDivisor by(divisor);
  if (i < count) {
    out[i] = int(numbers[i]) / by;
    rest[i] = int(numbers[i]) % by;
  }
}
FUSEBUILD_ENTRY(quick_quotients)

FUSEBUILD_KERNEL(128, 1)
small_quotients(int64_t* __restrict__ out, const int64_t* __restrict__ numbers, int64_t count,
                int64_t divisor) {
  const int64_t i = int64_t(fb::block_x()) * 128 + fb::thread_x();
  const fb::SmallDivisor by(divisor);
  if (i < count) out[i] = int(numbers[i]) / by;
}
FUSEBUILD_ENTRY(small_quotients)
