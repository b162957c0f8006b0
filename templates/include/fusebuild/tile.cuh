// Square tiles in shared memory that are written along their rows and read along their columns.

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

// How far from a tile's first row or column element `own` along that side is. Where the other side has less
// than kTile elements, 2^`beside_bits`, the tile is folded: what is `beside` those goes on behind kTile of
// this side's.
template <int kTile>
FUSEBUILD_DEVICE int place_in_tile(int own, int64_t own_bits, int beside, int64_t beside_bits) {
  const int within = own & ((1 << static_cast<int>(own_bits)) - 1);
  return within + (beside >> static_cast<int>(beside_bits)) * kTile;
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

// Where in a tile that has columns one behind the other, `pitch` elements apart, column number `column`
// begins. After every kVec of them there is a gap of as many elements: else those that lie kVec columns apart
// would all be in one bank.
template <int kVec>
FUSEBUILD_DEVICE int column_place(int column, int pitch) {
  return column * pitch + column / kVec * kVec;
}

// The place of a tile of a matrix of so many `rows` and `columns` of tiles, which is the one at (row, column)
// of an order by rows. Tiles that run at one time are of a few rows of tiles: what they read lies close
// together along rows and along columns (H100: 267 rows of 174263 bfloat16 162 -> 118 us).
struct TilePlace {
  static constexpr int kBand = 8;

  int row, column;

  FUSEBUILD_DEVICE TilePlace(int row, int column, int rows, int columns) {
    const int place = row % kBand * columns + column, first = row - row % kBand;
    if (rows - first >= kBand) {
      this->row = first + place % kBand;
      this->column = place / kBand;
    } else {
      this->row = first + place % (rows - first);
      this->column = place / (rows - first);
    }
  }
};

}  // namespace fusebuild
