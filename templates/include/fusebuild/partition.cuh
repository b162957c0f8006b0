// Rows of several outer indices, shared out to blocks in order: no block has more than one row above the
// others.

#pragma once

#include "fusebuild/vec.cuh"

namespace fusebuild {

// `depth` rows for each of `outers` indices. An index has a part for each block that has rows of it. One
// without rows counts as one place, so that some block says what nothing adds up to. Every one of `blocks`
// has a place: a block between others that had none would leave a part of an index unsaid.
struct Partition {
  int64_t outers, depth, blocks;

  FUSEBUILD_DEVICE int64_t places() const { return depth > 0 ? depth : 1; }

  // Where the places of `block` begin: the block of a place p is p * blocks / (outers * places()), rounded
  // down.
  FUSEBUILD_DEVICE int64_t begin(int64_t block) const {
    if (block >= blocks) return outers * places();
    return (outers * places() * block + blocks - 1) / blocks;
  }

  // The block that has the first place of `outer`.
  FUSEBUILD_DEVICE int64_t first_block(int64_t outer) const { return outer * blocks / outers; }

  // Parts of an index at most: it begins and ends among a block's places.
  FUSEBUILD_DEVICE int64_t most_parts() const { return outers > 0 ? blocks / outers + 2 : 0; }
};

// The partition among `most` blocks, or the first of them where there are fewer places.
FUSEBUILD_DEVICE Partition partition(int64_t outers, int64_t depth, int64_t most) {
  const Partition whole{outers, depth, most};
  const int64_t places = outers * whole.places();
  return {outers, depth, most < places ? most : places};
}

}  // namespace fusebuild
