// Tiles in shared memory that are written along their rows and read along their columns: square ones that
// move by vectors, and boxes that move by elements.

#pragma once

#include "fusebuild/vec.cuh"

namespace fusebuild {

// Where in a tile whose rows have kTile elements the element at (row, column) lies. Vectors of kVec elements
// of a row stay together and aligned; which place in its row a vector has depends on the row, so that the
// elements of a column, for kVec neighbouring rows apart, fall to different banks.
template <int kTile, int kVec>
FUSEBUILD_DEVICE int tile_index(int row, int column) {
  constexpr int kVectors = kTile / kVec;
  static_assert((kVectors & (kVectors - 1)) == 0, "a row holds a power of two of vectors");
  const int vector = (column / kVec) ^ (row / kVec % kVectors);
  return row * kTile + vector * kVec + column % kVec;
}

// The vector of a row that begins at `column`.
template <int kTile, int kVec, typename T>
FUSEBUILD_DEVICE Packed<T, kVec> load_tile(const T* tile, int row, int column) {
  return *reinterpret_cast<const Packed<T, kVec>*>(tile + tile_index<kTile, kVec>(row, column));
}

template <int kTile, int kVec, typename T>
FUSEBUILD_DEVICE void store_tile(T* tile, int row, int column, const Packed<T, kVec>& values) {
  *reinterpret_cast<Packed<T, kVec>*>(tile + tile_index<kTile, kVec>(row, column)) = values;
}

// kVec elements of column `column`, from row `row` on, which need be no multiple of kVec: where the vectors
// of rows change their places, once at most, another address goes on.
template <typename T, int kTile, int kVec>
struct TileColumn {
  const T *before, *after;
  int rows_before;

  FUSEBUILD_DEVICE TileColumn(const T* tile, int row, int column) : rows_before(kVec - row % kVec) {
    const int next = row - row % kVec + kVec;
    before = tile + tile_index<kTile, kVec>(row, column);
    after = tile + tile_index<kTile, kVec>(next, column) - rows_before * kTile;
  }

  FUSEBUILD_DEVICE T operator[](int k) const { return (k < rows_before ? before : after)[k * kTile]; }
};

// The place of tile `number` of a matrix. Tiles that run at one time are of a few rows of tiles: what they
// read lies close together along rows and along columns (H100: 267 rows of 174263 bfloat16 162 -> 118 us).
template <typename Index>
struct TilePlace {
  static constexpr int kBand = 8;

  Index row, column;

  FUSEBUILD_DEVICE TilePlace(Index number, Index rows, Index columns) {
    const Index first = number / (kBand * columns) * kBand, left = rows - first;
    const Index band = left < kBand ? left : Index(kBand), place = number - first * columns;
    row = first + place % band;
    column = place / band;
  }
};

// Where in shared memory the element of a box with number `place` lies: what is a power of two apart falls to
// different banks.
FUSEBUILD_DEVICE int skewed(int place) { return place + place / 32; }

// How long a side of a box is: `side`, or what is `left` of the matrix.
template <typename Index>
FUSEBUILD_DEVICE int side_of_box(Index side, Index left) {
  return static_cast<int>(side < left ? side : left);
}

// The walk of a block of kThreads over a box, each thread kThreads elements on with every step: its place
// along the inner side of so many elements, the middle side, and the outer one.
template <int kThreads>
struct BoxWalk {
  int middles, inners;
  int outer, middle, inner;
  int outer_step, middle_step, inner_step;

  FUSEBUILD_DEVICE BoxWalk(int middles, int inners) : middles(middles), inners(inners) {
    inner = thread_x() % inners, middle = thread_x() / inners;
    outer = middle / middles, middle %= middles;
    inner_step = kThreads % inners, middle_step = kThreads / inners;
    outer_step = middle_step / middles, middle_step %= middles;
  }

  // Sides are carried over by hand: no step divides.
  FUSEBUILD_DEVICE void step() {
    inner += inner_step;
    const bool inner_ends = inner >= inners;
    inner -= inner_ends ? inners : 0;
    middle += middle_step + inner_ends;
    const bool middle_ends = middle >= middles;
    middle -= middle_ends ? middles : 0;
    outer += outer_step + middle_ends;
  }
};

}  // namespace fusebuild
