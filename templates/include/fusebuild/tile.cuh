// Square tiles in shared memory that are written along their rows and read along their columns.

#pragma once

#include "fusebuild/vec.cuh"

namespace fusebuild {

// Where in a tile of kTile x kTile elements the element at (row, column) lies. Vectors of kVec elements of a
// row stay together and aligned; which place in its row a vector has depends on the row, so that the elements
// of a column, for kVec neighbouring rows apart, fall to different banks.
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

}  // namespace fusebuild
