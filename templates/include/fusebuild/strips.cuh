// Rows that lie side by side, by aligned vectors: one that has elements of two rows is stored by one lane.

#pragma once

#include "fusebuild/shifted.cuh"

namespace fusebuild {

// Stores those of an aligned vector's elements at columns `column` + k that a row of so many `columns` has,
// one at least.
template <typename T, int N>
FUSEBUILD_DEVICE void store_strip(T* address, const Vec<T, N>& values, int32_t column, int32_t columns) {
  if (column >= 0 && columns - column >= N)
    store(address, values);
  else
    store_inside(address, values, inside_of<N>(column, columns));
}

// The vectors of rows of `columns` elements, N at least, of which a warp's lanes have one each: those of a
// row, which begins at element `start` of a tensor, are numbered, and as many lanes as `lanes` are the row's.
template <int N>
class JoinedVector {
 public:
  FUSEBUILD_DEVICE JoinedVector(int32_t start, int32_t columns, int32_t lanes, int32_t number, bool has_next)
      : column_(number * N - shift_of<N>(start)),
        columns_(columns),
        next_(thread_lane() + lanes - number),
        joins_(columns - column_ < N && has_next && next_ < kWarpThreads),
        is_taken_(columns <= column_) {
    if (number != 0 || column_ >= 0) return;
    const uint32_t last = static_cast<uint32_t>(start - 1) / N,
                   first = static_cast<uint32_t>(start - columns) / N;
    is_taken_ = thread_lane() - lanes + static_cast<int>(last - first) >= 0;
  }

  // Stores those of the vector's `values` that are the row's at `address`, and what the next row has of it,
  // if there is one. All lanes of the warp must call this, also those that are beyond their row's end.
  template <typename T>
  FUSEBUILD_DEVICE void store(T* address, const Vec<T, N>& values) const {
    Packed<T, N> own = pack(values);
    constexpr int kRegisters = sizeof(own) / 4, kBits = 8 * sizeof(T);
    uint32_t registers[kRegisters];
    memcpy(registers, own.words, sizeof(own));
    const int bits = joins_ ? (columns_ - column_) * kBits : kRegisters * 32;  // that stay
    FUSEBUILD_UNROLL
    for (int r = 0; r < kRegisters; ++r) {
      const uint32_t other = shuffle_index(registers[r], next_ % kWarpThreads);
      const int stay = bits < 32 * r ? 0 : bits < 32 * r + 32 ? bits - 32 * r : 32;
      const uint32_t taken = static_cast<uint32_t>(uint64_t(~0u) << stay);
      registers[r] = (registers[r] & ~taken) | (other & taken);
    }
    if (is_taken_) return;
    memcpy(own.words, registers, sizeof(own));
    store_strip(address, unpack(own), column_, joins_ ? column_ + N : columns_);
  }

 private:
  int32_t column_, columns_;
  int next_;
  bool joins_, is_taken_;
};

}  // namespace fusebuild
