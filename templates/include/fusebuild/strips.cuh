// Rows that lie side by side, by aligned vectors: one that has elements of two rows is stored by one lane.

#pragma once

#include "fusebuild/shifted.cuh"

namespace fusebuild {

// The vectors of rows of `columns` elements, N at least, of which a warp's lanes have one each: those of a
// row, which begins at element `start` of a tensor, are numbered, and as many lanes as `lanes` are the row's.
template <int N>
class JoinedVector {
 public:
  FUSEBUILD_DEVICE JoinedVector(int32_t start, int32_t columns, int32_t lanes, int32_t number)
      : column_(number * N - shift_of<N>(start)),
        columns_(columns),
        next_(thread_lane() + lanes - number),
        is_taken_(number == 0 && column_ < 0 &&
                  thread_lane() - lanes + ((start - 1) / N - (start - columns) / N) >= 0) {}

  // Stores those of the vector's `values` that are the row's at `address`, and what the next row has of it,
  // which is one of `rows` if `has_next`. All lanes of the warp must call this, also those that are beyond
  // their row's end.
  template <typename T>
  FUSEBUILD_DEVICE void store(T* address, const Vec<T, N>& values, bool has_next) const {
    Packed<T, N> own = pack(values);
    constexpr int kRegisters = sizeof(own) / 4, kBits = 8 * sizeof(T);
    const int present = columns_ - column_;
    const bool joins = present < N && has_next && next_ < kWarpThreads;
    uint32_t registers[kRegisters];
    memcpy(registers, own.words, sizeof(own));
    FUSEBUILD_UNROLL
    for (int r = 0; r < kRegisters; ++r) {
      const uint32_t other = shuffle_index(registers[r], next_ % kWarpThreads);
      const int bits = present * kBits - 32 * r;
      const uint32_t mask = bits <= 0 ? 0 : bits < 32 ? (1u << bits) - 1 : ~0u;
      if (joins) registers[r] = (registers[r] & mask) | (other & ~mask);
    }
    if (present <= 0 || is_taken_) return;
    memcpy(own.words, registers, sizeof(own));
    store_inside(address, unpack(own), inside_of<N>(column_, joins ? column_ + N : columns_));
  }

 private:
  int32_t column_, columns_;
  int next_;
  bool is_taken_;
};

}  // namespace fusebuild
