// Vectors of rows that have pieces of one length, as the pixels of a channel are one of the row of a group:
// such a vector may cross from one piece to the next. What is one value a piece is loaded once for each piece
// that a vector has a part of, most often one or two, and not for each of its elements.

#pragma once

#include "fusebuild/vec.cuh"

namespace fusebuild {

// The pieces of so many elements, `size`, that a vector of N has parts of. It begins in the piece `first`,
// `left` elements before that ends.
template <int N, typename Index>
struct Pieces {
  Index first, left, size;

  FUSEBUILD_DEVICE Pieces(Index col, Index first, int64_t size)
      : first(first), left((first + 1) * static_cast<Index>(size) - col), size(static_cast<Index>(size)) {}

  // Calls visit(piece, from) for each of them, in order: the vector's elements from number `from` on are of
  // that piece or of a later one. Where pieces are so short that there may be more than three, that is done
  // for each element. What visits load is on its way together.
  template <typename Visit>
  FUSEBUILD_DEVICE void each(const Visit& visit) const {
    if (size < N / 2) {
      each_element(visit);
    } else {
      visit(first, Index(0));
      visit(left < N ? first + 1 : first, left);
      if (left + size < N) visit(first + 2, left + size);
    }
  }

 private:
  template <typename Visit>
  FUSEBUILD_DEVICE void each_element(const Visit& visit) const {
    Index piece = first, rest = left;
    FUSEBUILD_UNROLL
    for (int k = 0; k < N; ++k) {
      visit(piece, Index(k));
      const bool ends = --rest == 0;
      piece += ends ? 1 : 0;
      rest = ends ? size : rest;
    }
  }
};

// Puts `value` in the place of the elements from number `from` on. They stay in as many registers as the
// vector is loaded in, which are masked as a whole.
template <int N, typename T, typename Index>
FUSEBUILD_DEVICE void fill_from(Packed<T, N>& values, Index from, T value) {
  constexpr int kBits = 8 * static_cast<int>(sizeof(T)), kRegisters = N * kBits / 32;
  if constexpr (N * kBits % 32 == 0) {
    const Packed<T, N> filled = pack(splat<N>(value));
    uint32_t own[kRegisters], other[kRegisters];
    memcpy(own, values.words, sizeof(own));
    memcpy(other, filled.words, sizeof(other));
    const int first = from < N ? kBits * static_cast<int>(from) : N * kBits;
    FUSEBUILD_UNROLL
    for (int r = 0; r < kRegisters; ++r) {
      const int before = first - 32 * r;  // bits of this register that stay as they are
      const uint32_t mask = shift_up(~0u, before > 0 ? before : 0);
      own[r] = (own[r] & ~mask) | (other[r] & mask);
    }
    memcpy(values.words, own, sizeof(own));
  } else {
    Vec<T, N> each = unpack(values);
    FUSEBUILD_UNROLL
    for (int k = 0; k < N; ++k) each[k] = k < from ? each[k] : value;
    values = pack(each);
  }
}

}  // namespace fusebuild
