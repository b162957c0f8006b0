// Rows of several outer indices, shared out to blocks in order: no block has more than one row above the
// others, unless parts of indices are few instead.

#pragma once

#include "fusebuild/vec.cuh"

namespace fusebuild {

// How many rows take as long as the parts of an outer index that begin or end among a block's rows, about.
constexpr int kRowsOfParts = 8;

// `depth` rows for each of `outers` indices, one of which has most_parts: one for each block that has rows of
// it. One without rows counts as one place, so that some block says what nothing adds up to. Every one of
// `blocks` has a place: a block between others that had none would leave a part of an index unsaid. Shares
// are so many neighbouring places or, where the grain is an index, indices.
struct Partition {
  int64_t outers, depth, blocks, grain, most_parts;

  FUSEBUILD_DEVICE int64_t places() const { return depth > 0 ? depth : 1; }

  // Where the places of `block` begin: of G grains in all, the block of grain g is g * blocks / G, rounded
  // down.
  FUSEBUILD_DEVICE int64_t begin(int64_t block) const {
    if (block >= blocks) return outers * places();
    const int64_t grains = grain > 1 ? outers : outers * places();
    return (grains * block + blocks - 1) / blocks * grain;
  }

  // The block that has the first place of `outer`.
  FUSEBUILD_DEVICE int64_t first_block(int64_t outer) const { return outer * blocks / outers; }
};

// The partition among `most` blocks, or the first of them. Where blocks have whole indices, or equal parts of
// one, there are fewer parts: so it is if the longest share has no more places than it would have if each
// index had kRowsOfParts more, or than the longest one of all blocks has.
FUSEBUILD_DEVICE Partition partition(int64_t outers, int64_t depth, int64_t most) {
  const int64_t places = depth > 0 ? depth : 1, enough = outers * (places + kRowsOfParts);
  if (outers == 0) return {outers, depth, 0, 1, 0};
  if (most < outers) {
    const int64_t indices = (outers + most - 1) / most;
    if (indices * places * most <= enough) return {outers, depth, most, places, 1};
    return {outers, depth, most, 1, 2};
  }
  const int64_t parts = most / outers;
  if (parts >= places) return {outers, depth, outers * places, 1, places};
  const int64_t longest = (places + parts - 1) / parts, used = outers * parts;
  const bool is_short = longest * most <= enough || (longest - 1) * most < outers * places;
  if (used == most || is_short) return {outers, depth, used, 1, parts};
  return {outers, depth, most, 1, parts + 2};
}

// The partition where each block has whole indices: the first of `most`, if indices are fewer.
FUSEBUILD_DEVICE Partition whole_partition(int64_t outers, int64_t depth, int64_t most) {
  return {outers, depth, most < outers ? most : outers, depth > 0 ? depth : 1, 1};
}

// The rows of a walker: `count` from `first` on, in the order of after().
struct WalkedRows {
  int64_t first;
  int count, step;

  // The row that comes after `row`: the one a `step` later, or the first one that begins at the next place,
  // of which there are a power of two where a walker has several.
  FUSEBUILD_DEVICE int64_t after(int64_t row, int64_t rows) const {
    return row + step < rows ? row + step : (row & (step - 1)) + 1;
  }
};

// Rows of a sample for each place of a vector with which what stays of it is worth the way to its next row.
constexpr int kManyRowsOfPlace = 2;

// Shares rows of so many `columns`, `run` of which follow each other in a sample, out to `walkers`, as many
// to each but for one: those that begin at the same place of a vector of kVec elements one after another.
// Rows a period apart do. Of walkers that are more than rows the first ones have one each.
//
// Where samples have few rows, most of a walker's are of other samples anyway. Then neighbouring walkers have
// neighbouring rows at a time, so that what a sample has comes to L2 once, each as many rows apart as there
// are walkers: a whole number of periods, where few walkers have nothing to do then. (H100, adaln_forward of
// 300 x 3 x 20001 78 -> 72 us, of 500 x 9 x 5003 70 -> 65; but with six walkers fewer than 30, of 100 x 7 x
// 33001, 112 -> 130.)
template <int kVec>
FUSEBUILD_DEVICE WalkedRows walked_rows(int64_t columns, int64_t rows, int64_t run, int64_t walker,
                                        int64_t walkers) {
  const int64_t period = places_of_rows<kVec>(columns), sharing = walkers < rows ? walkers : rows;
  const int64_t step = sharing / period * period;
  if (period > 1 && run < kManyRowsOfPlace * period && 16 * (sharing - step) < sharing) {
    const int64_t count = walker < step ? (rows - walker + step - 1) / step : 0;
    return {walker < step ? walker : 0, static_cast<int>(count), static_cast<int>(step)};
  }
  const int64_t begin = rows * walker / sharing, end = rows * (walker + 1) / sharing;
  const int64_t each = rows / period, more = rows % period;  // rows of a place; places that have one more
  const int64_t longer = more * (each + 1);
  const bool is_longer = begin < longer;
  const int64_t depth = is_longer ? each + 1 : each, at = is_longer ? begin : begin - longer;
  const int64_t place = at / depth + (is_longer ? 0 : more);
  return {place + at % depth * period, static_cast<int>(end - begin), static_cast<int>(period)};
}

}  // namespace fusebuild
