// Rows of several outer indices, shared out to blocks in order: no block has more than one row above the
// others, unless parts of indices are few instead.

#pragma once

#include "fusebuild/vec.cuh"

namespace fusebuild {

// How many rows take as long as the parts of an outer index that begin or end among a block's rows, about.
constexpr int kRowsOfParts = 8;

// A quotient of numbers that are not negative: that of 32 bits takes few instructions.
FUSEBUILD_DEVICE int quotient(int a, int b) {
  return static_cast<int>(static_cast<unsigned>(a) / static_cast<unsigned>(b));
}
FUSEBUILD_DEVICE int64_t quotient(int64_t a, int64_t b) { return a / b; }

// `depth` rows for each of `outers` indices, one of which has most_parts: one for each block that has rows of
// it. One without rows counts as one place, so that some block says what nothing adds up to. Every one of
// `blocks` has a place: a block between others that had none would leave a part of an index unsaid. Shares
// are so many neighbouring places or, where the grain is an index, indices.
//
// A Number counts places. It may be an int where rows are less than 2^31, and blocks less than 2^15. (Blocks
// find their share before they load anything: with quotients of 64 bits that takes 0.4 us of an H100 more.)
template <typename Number>
struct Partition {
  Number outers, depth, blocks, grain, most_parts;
  Number each, more;  // grains of each block; how many have one more

  FUSEBUILD_DEVICE Partition(Number outers, Number depth, Number blocks, Number grain, Number most_parts)
      : outers(outers), depth(depth), blocks(blocks), grain(grain), most_parts(most_parts) {
    const Number grains = grain > 1 ? outers : outers * places();
    each = quotient(grains, blocks);
    more = grains - each * blocks;
  }

  FUSEBUILD_DEVICE Number places() const { return depth > 0 ? depth : 1; }

  // Where the places of `block` begin: of G grains in all, the block of grain g is g * blocks / G, rounded
  // down. Blocks beyond the last one have none.
  FUSEBUILD_DEVICE Number begin(Number block) const {
    const Number own = block < blocks ? block : blocks;
    return (each * own + quotient(more * own + blocks - 1, blocks)) * grain;
  }

  // The index of a place.
  FUSEBUILD_DEVICE Number outer_of(Number place) const { return quotient(place, places()); }

  // The block that has the first place of `outer`.
  FUSEBUILD_DEVICE Number first_block(Number outer) const {
    return static_cast<Number>(int64_t(outer) * blocks / outers);
  }
};

// The partition among `most` blocks, or the first of them. Where blocks have whole indices, or equal parts of
// one, there are fewer parts: so it is if the longest share has no more places than it would have if each
// index had kRowsOfParts more, or than the longest one of all blocks has.
template <typename Number>
FUSEBUILD_DEVICE Partition<Number> partition(Number outers, Number depth, Number most) {
  const Number places = depth > 0 ? depth : 1;
  const int64_t enough = outers * (int64_t(places) + kRowsOfParts);
  Number used = most, grain = 1, most_parts = 2;
  if (outers == 0) {
    used = 1;
    most_parts = 0;
  } else if (most < outers) {
    const int64_t indices = quotient(outers + most - 1, most);
    if (indices * places * most <= enough) {
      grain = places;
      most_parts = 1;
    }
  } else if (const Number parts = quotient(most, outers); parts >= places) {
    used = outers * places;
    most_parts = places;
  } else {
    const int64_t longest = quotient(places + parts - 1, parts);
    const bool is_short = longest * most <= enough || (longest - 1) * most < int64_t(outers) * places;
    const bool are_even = outers * parts == most || is_short;
    used = are_even ? outers * parts : most;
    most_parts = are_even ? parts : parts + 2;
  }
  return {outers, depth, used, grain, most_parts};
}

// The partition where each block has whole indices: the first of `most`, if indices are fewer.
template <typename Number>
FUSEBUILD_DEVICE Partition<Number> whole_partition(Number outers, Number depth, Number most) {
  const Number used = most < outers ? most : outers;
  return {outers, depth, used > 0 ? used : 1, depth > 0 ? depth : 1, 1};
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
