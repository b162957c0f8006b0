// Indices of 32 bits: division without dividing, by numbers that the executor knows before a kernel runs.

#pragma once

#include "fusebuild/access.cuh"

namespace fusebuild {

struct Divided {
  int32_t quotient, remainder;
};

// `number` divided by `size`, both from 0 to 2^31 - 1, of which `reciprocal` is 2^32 - 1 parts of one,
// rounded down: what is multiplied with that is too small by less than one. Five instructions.
FUSEBUILD_DEVICE Divided divided(int32_t number, int32_t size, int64_t reciprocal) {
  const uint32_t least = high_product(static_cast<uint32_t>(number), static_cast<uint32_t>(reciprocal));
  const uint32_t negative = 0u - static_cast<uint32_t>(size);
  const uint32_t left = static_cast<uint32_t>(number) + least * negative;
  const uint32_t less = left + negative;  // beyond all that may be left where that is smaller than `size`
  return {static_cast<int32_t>(least + (less < left ? 1 : 0)),
          static_cast<int32_t>(less < left ? less : left)};
}

// Takes a `coordinate` on an axis of `size` points on by `step`, which is no more than `size`; 1 where it
// comes to the axis's end so, and goes on from its beginning, else 0.
FUSEBUILD_DEVICE int32_t count_on(int32_t& coordinate, int32_t step, int32_t size) {
  const uint32_t next = static_cast<uint32_t>(coordinate) + static_cast<uint32_t>(step);
  const uint32_t less = next - static_cast<uint32_t>(size);  // far beyond `next` where that is in the axis
  coordinate = static_cast<int32_t>(less < next ? less : next);
  return less < next ? 1 : 0;
}

// As inside(), of a dim with fewer than 2^31 elements: of the words of an `index` the upper one is looked at
// once.
FUSEBUILD_DEVICE int64_t near_inside(int64_t index, int32_t size) {
  const int32_t upper = static_cast<int32_t>(index >> 32);
  const uint32_t last = static_cast<uint32_t>(size > 0 ? size - 1 : 0);
  const uint32_t wanted = upper == 0 ? static_cast<uint32_t>(index) : ~static_cast<uint32_t>(upper >> 31);
  return wanted < last ? wanted : last;
}

// `bound`, or the nearest one that an index can be compared with.
FUSEBUILD_DEVICE int32_t nearest_index(int64_t bound) {
  constexpr int64_t kMost = 0x7fffffff;
  return static_cast<int32_t>(bound < -kMost ? -kMost : bound > kMost ? kMost : bound);
}

}  // namespace fusebuild
