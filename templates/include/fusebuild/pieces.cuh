// Vectors of rows that have pieces of one length, as the pixels of a channel are one of the row of a group:
// such a vector may cross from one piece to the next. What is one value a piece is loaded once for each piece
// that a vector has a part of, most often one or two, and not for each of its elements.

#pragma once

#include "fusebuild/divisor.cuh"
#include "fusebuild/vec.cuh"

namespace fusebuild {

// A vector whose elements are all the same: what is computed of them is computed once.
template <typename T>
struct Same {
  T value;

  FUSEBUILD_DEVICE const T& operator[](int) const { return value; }
};

// Says that a value is that of element number k alone.
template <int k>
struct Nth {};

// The pieces of so many elements, `size`, that a vector of N has parts of. It begins in the piece `first`,
// `left` elements before that ends.
template <int N, typename Index>
struct Pieces {
  // Pieces that are shorter than a vector, of which it has parts of so many at most, are gathered: the
  // vector's first elements take what they have, and are spread from there.
  static constexpr int kGathered = 4;
  static constexpr int kShortest = (N + kGathered - 3) / (kGathered - 1);  // of those

  Index first, left, size;

  FUSEBUILD_DEVICE Pieces(Index col, Index first, int64_t size)
      : first(first), left((first + 1) * static_cast<Index>(size) - col), size(static_cast<Index>(size)) {}

  // Whether that is one alone.
  FUSEBUILD_DEVICE bool are_one() const { return left >= N; }

  // Calls visit(piece, from) for each of them, in order: the vector's elements from number `from` on are of
  // that piece or of a later one. Where pieces are gathered, `from` is the element that takes what the piece
  // has; where they are shorter yet, that is done for each element. What visits load is on its way together.
  template <typename Visit>
  FUSEBUILD_DEVICE void each(const Visit& visit) const {
    visit(first, Index(0));
    others(visit);
  }

  // The same but for the first piece: where pieces are long, most vectors have no other.
  template <typename Visit>
  FUSEBUILD_DEVICE void others(const Visit& visit) const {
    if (are_one()) return;
    if (size >= N) {
      visit(first + 1, left);
    } else if (size >= kShortest) {
      gather<1>(visit);
    } else {
      visit_element<0>(visit, first, left);
    }
  }

  // Takes to each element of the vectors what its piece has, where pieces were gathered.
  template <typename... T>
  FUSEBUILD_DEVICE void spread(Packed<T, N>&... vectors) const {
    if (size >= N || size < kShortest) return;
    uint32_t bytes[(N + 3) / 4];
    FUSEBUILD_UNROLL
    for (int w = 0; w < (N + 3) / 4; ++w) bytes[w] = bytes_of(4 * w);
    (spread_by(bytes, vectors), ...);
  }

 private:
  // The element that the vector's piece number p begins with, which is not the first.
  FUSEBUILD_DEVICE Index begin(int p) const { return left + (p - 1) * size; }

  template <int p, typename Visit>
  FUSEBUILD_DEVICE void gather(const Visit& visit) const {
    if constexpr (p < kGathered && p < N) {
      if (begin(p) < N) visit(first + p, Nth<p>{});
      gather<p + 1>(visit);
    }
  }

  template <int k, typename Visit>
  FUSEBUILD_DEVICE void visit_element(const Visit& visit, Index piece, Index rest) const {
    if constexpr (k < N) {
      visit(piece, Nth<k>{});
      const bool ends = rest == 1;
      visit_element<k + 1>(visit, piece + (ends ? 1 : 0), ends ? size : rest - 1);
    }
  }

  template <int kWords, typename T>
  FUSEBUILD_DEVICE void spread_by(const uint32_t (&bytes)[kWords], Packed<T, N>& values) const {
    if constexpr (sizeof(T) == 2 && N >= kGathered) {
      uint32_t own[N / 2], each[N / 2];
      memcpy(own, values.words, sizeof(own));
      FUSEBUILD_UNROLL
      for (int r = 0; r < N / 2; ++r) each[r] = select_bytes(own[0], own[1], bytes[r / 2] >> (16 * (r % 2)));
      memcpy(values.words, each, sizeof(each));
    } else {
      const Vec<T, N> own = unpack(values);
      Vec<T, N> each = splat<N>(own[0]);
      FUSEBUILD_UNROLL
      for (int p = 1; p < smaller(kGathered, N); ++p) {
        FUSEBUILD_UNROLL
        for (int k = 0; k < N; ++k) each[k] = k < begin(p) ? each[k] : own[p];
      }
      values = pack(each);
    }
  }

  // Two bytes of the gathered ones for each of four elements, from number `element` on: the numbers of both
  // are in a byte.
  FUSEBUILD_DEVICE uint32_t bytes_of(int element) const {
    uint32_t bytes = 0x10101010;
    FUSEBUILD_UNROLL
    for (int p = 1; p < kGathered; ++p) {
      const int before = 8 * (static_cast<int>(begin(p)) - element);  // bits of elements before the piece
      bytes += shift_up(0x22222222, element == 0 || before > 0 ? before : 0);
    }
    return bytes;
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

// The same of element number k alone.
template <int N, typename T, int k>
FUSEBUILD_DEVICE void fill_from(Packed<T, N>& values, Nth<k>, T value) {
  if constexpr (sizeof(T) == 2 && N > 1) {
    uint32_t own[N / 2];
    uint16_t bits;
    memcpy(own, values.words, sizeof(own));
    memcpy(&bits, &value, sizeof(bits));
    own[k / 2] = select_bytes(own[k / 2], bits, k % 2 == 0 ? 0x3254 : 0x5410);
    memcpy(values.words, own, sizeof(own));
  } else {
    Vec<T, N> each = unpack(values);
    each[k] = value;
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
    uint32_t first = static_cast<uint32_t>(start_ + at);
    forget_origin(first);  // or compilers keep the quotients of all vectors in registers
    FUSEBUILD_UNROLL
    for (int k = 0; k < N; ++k) {
      if (k >= present) break;
      visit(k, (static_cast<Index>(first) + k) / by_);
    }
  }

 private:
  Index start_, first_, left_;
  bool are_two_;
  SmallDivisor by_;
};

}  // namespace fusebuild
