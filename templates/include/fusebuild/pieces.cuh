// Vectors of rows that have pieces of one length, as the pixels of a channel are one of the row of a group:
// such a vector may cross from one piece to the next. What is one value a piece is loaded once for each piece
// that a vector has a part of, most often one or two, and not for each of its elements.

#pragma once

#include "fusebuild/divisor.cuh"
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
    if (left >= N || size >= N / 2) visit(first, Index(0));
    others(visit);
  }

  // The same but for the first piece: where pieces are long, most vectors have no other.
  template <typename Visit>
  FUSEBUILD_DEVICE void others(const Visit& visit) const {
    if (left >= N) return;
    if (size < N / 2) {
      each_element(visit);
    } else {
      visit(first + 1, left);
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

// What two pieces that follow each other have.
template <typename T>
struct TwoPieces {
  T before, after;
};

// The vector of which the first `left` elements are of the piece before, and the others of that after.
template <int N, typename T, typename Index>
FUSEBUILD_DEVICE Vec<T, N> vector_of(const TwoPieces<T>& pieces, Index left) {
  Vec<T, N> values;
  FUSEBUILD_UNROLL
  for (int k = 0; k < N; ++k) values[k] = k < left ? pieces.before : pieces.after;
  return values;
}

// The pieces of so many elements, `size`, that a thread's neighbouring elements of a row are of, from column
// `start` on, up to `count` for each thread of a row. Where those are parts of two pieces at most, the thread
// loads what two pieces have once for all of its elements.
template <typename Index>
class RunPieces {
 public:
  FUSEBUILD_DEVICE RunPieces(Index start, Index columns, int count, int64_t size)
      : start_(start), are_two_(size >= count || size >= columns), by_(size) {
    first_ = start / by_;
    left_ = (first_ + 1) * static_cast<Index>(size) - start;
  }

  FUSEBUILD_DEVICE bool are_two() const { return are_two_; }

  // How many elements from the thread's `at`-th on are of the first of two.
  FUSEBUILD_DEVICE Index left(Index at) const { return left_ - at; }

  // What two have of which `held` elements of the thread are: load(piece) for each.
  template <typename Load>
  FUSEBUILD_DEVICE auto load(int held, const Load& load) const {
    TwoPieces<decltype(load(start_))> own = {};
    if (are_two_ && held > 0) own = {load(first_), load(left_ < held ? first_ + 1 : first_)};
    return own;
  }

  // Calls visit(k, piece) for the first `present` of N elements from the thread's `at`-th on, if those are of
  // more.
  template <int N, typename Visit>
  FUSEBUILD_DEVICE void each(Index at, int present, const Visit& visit) const {
    FUSEBUILD_UNROLL
    for (int k = 0; k < N; ++k) {
      if (k >= present) break;
      visit(k, (start_ + at + k) / by_);
    }
  }

 private:
  Index start_, first_, left_;
  bool are_two_;
  SmallDivisor by_;
};

}  // namespace fusebuild
