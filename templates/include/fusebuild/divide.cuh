// Indices of 32 bits: division without dividing, by numbers that the executor knows before a kernel runs.

#pragma once

#include "fusebuild/access.cuh"

namespace fusebuild {

struct Divided {
  int32_t quotient, remainder;
};

// `number` divided by `size`, both from 0 to 2^31 - 1, of which `reciprocal` is 2^32 - 1 parts of one,
// rounded down: what is multiplied with that is too small by less than one.
FUSEBUILD_DEVICE Divided divided(int32_t number, int32_t size, int64_t reciprocal) {
  const uint64_t product = uint64_t(static_cast<uint32_t>(number)) * static_cast<uint32_t>(reciprocal);
  const int32_t quotient = static_cast<int32_t>(product >> 32);
  const int32_t remainder = number - quotient * size;
  return remainder < size ? Divided{quotient, remainder} : Divided{quotient + 1, remainder - size};
}

// Takes a `coordinate` on an axis of `size` points on by `step`, which is no more than `size`; 1 where it
// comes to the axis's end so, and goes on from its beginning, else 0.
FUSEBUILD_DEVICE int32_t count_on(int32_t& coordinate, int32_t step, int32_t size) {
  const uint32_t next = static_cast<uint32_t>(coordinate) + static_cast<uint32_t>(step);
  const bool carries = next >= static_cast<uint32_t>(size);
  coordinate = static_cast<int32_t>(carries ? next - static_cast<uint32_t>(size) : next);
  return carries ? 1 : 0;
}

// `bound`, or the nearest one that an index can be compared with.
FUSEBUILD_DEVICE int32_t nearest_index(int64_t bound) {
  constexpr int64_t kMost = 0x7fffffff;
  return static_cast<int32_t>(bound < -kMost ? -kMost : bound > kMost ? kMost : bound);
}

}  // namespace fusebuild
