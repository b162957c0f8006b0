// Rows of any length that begin alike, so that nothing of them has to be moved over: where vectors lie where
// memory is aligned, a thread that walks such rows alone has the same columns of each of them.

#pragma once

#include "fusebuild/reduce.cuh"
#include "fusebuild/shifted.cuh"

namespace fusebuild {

// Rows of one kind: each begins `shift` elements after an aligned vector does. They are those between `first`
// and `last`, so many apart as there are kinds; none where `last` is not after `first`.
struct RowsAlike {
  int64_t first, last;
  int shift;
};

// Rows of `columns` elements, side by side in tensors that begin aligned: row r begins at element r *
// columns, so those whose numbers agree modulo `kinds` begin alike.
//
// Where `walkers` are a multiple of the kinds, each walks rows that are so many apart: they are of one kind,
// and neighbours are those of different walkers at the same time. A walker leaves one part of what it adds
// up to.
//
// Else rows are shared in the order of their kinds, the first of which have one row more than others. A
// walker leaves a part for each kind that it has rows of, and one without rows where the next walker begins
// another kind than that its last row is of: there are `walkers` + `kinds` - 1, whatever the rows are. To end
// a kind and to begin the next one takes about as long as a row, so between two kinds there is a place
// without one; no walker has more than one place above the others. (All of this comes before the first load.
// With a dozen quotients of 64 bits it took 0.7 us of an H100.)
template <int N>
struct ShareOfAlike {
  int rows, walkers;
  int64_t columns;
  int kinds;
  int step;  // from one row of a part to its next

  // There are less than 2^31 rows.
  FUSEBUILD_DEVICE ShareOfAlike(int64_t rows, int64_t columns, int64_t walkers)
      : rows(static_cast<int>(rows)),
        walkers(static_cast<int>(walkers)),
        columns(columns),
        kinds(rows > walkers ? places_of_rows<N>(columns) : 1) {
    if (are_even()) {
      step = this->walkers;
    } else {
      step = kinds;
      each_ = static_cast<unsigned>(this->rows + kinds - 1) / static_cast<unsigned>(this->walkers);
      more_ = this->rows + kinds - 1 - each_ * this->walkers;
    }
  }

  // The first part of a walker; that of the one after the last is how many there are.
  FUSEBUILD_DEVICE int first_part(int walker) const {
    return are_even() ? walker : walker + kind_of(begin(walker));
  }

  // The rows of a walker's part.
  FUSEBUILD_DEVICE RowsAlike part(int walker, int number) const {
    if (are_even()) return {walker, rows, shift_of<N>(walker * columns)};
    const int kind = number - walker, own = begin_of(kind);
    const int from = largest(begin(walker), own), to = smaller(begin(walker + 1), begin_of(kind + 1) - 1);
    const int64_t first = kind + int64_t(from - own) * kinds;
    return {first, first + int64_t(to - from) * kinds, shift_of<N>(kind * columns)};
  }

 private:
  int each_ = 0, more_ = 0;  // places of each walker; how many walkers have one more

  FUSEBUILD_DEVICE bool are_even() const { return (walkers & (kinds - 1)) == 0; }

  // How many places are those of the walkers, or of the kinds, before this one.
  FUSEBUILD_DEVICE int begin(int walker) const { return walker * each_ + smaller(walker, more_); }
  FUSEBUILD_DEVICE int begin_of(int kind) const {
    return kind * ((rows >> log2_of(kinds)) + 1) + smaller(kind, rows & (kinds - 1));
  }

  // The kind of a place in the order of kinds, or the one before it.
  FUSEBUILD_DEVICE int kind_of(int place) const {
    int kind = 0;
    FUSEBUILD_UNROLL
    for (int k = 1; k < N; ++k) kind += k < kinds && begin_of(k) <= place ? 1 : 0;
    return kind;
  }
};

// Begins to copy the aligned vector at `address` to a thread's place in shared memory, where only `readable`
// elements may be read, at least one; those beyond are zero.
template <int N, typename Index, typename T>
FUSEBUILD_DEVICE void copy_up_to(Packed<T, N>* place, const T* address, Index readable) {
  using Word = typename Packed<T, N>::Word;
  constexpr int kBytes = static_cast<int>(sizeof(Word));
  const int bytes = static_cast<int>(readable < N ? readable : N) * static_cast<int>(sizeof(T));
  FUSEBUILD_UNROLL
  for (int w = 0; w < Packed<T, N>::kWords; ++w) {
    const int left = bytes - w * kBytes > 0 ? bytes - w * kBytes : 0;
    copy_word_async(&place->words[w], reinterpret_cast<const Word*>(address) + w,
                    left < kBytes ? left : kBytes);
  }
}

// Stores N neighbouring columns of each thread of a warp, `col` the first of them, to a row that may begin
// anywhere: as neighbouring threads store neighbouring elements, no sector is written piece by piece. All of
// the warp take part, those without columns too; `thread` is one of the kThreads of a block that store.
template <int kThreads, typename T, int N, typename Index>
FUSEBUILD_DEVICE void store_by_warps(T* row, int thread, Index col, Index columns, const Vec<T, N>& values) {
  FUSEBUILD_SHARED(T, places, kThreads * N);
  const int lane = thread % kWarpThreads;
  T* const own = places + (thread - lane) * N;
  FUSEBUILD_UNROLL
  for (int k = 0; k < N; ++k) own[lane * N + k] = values[k];
  sync_warp();
  const Index first = col - lane * N;
  FUSEBUILD_UNROLL
  for (int k = 0; k < N; ++k) {
    const Index at = first + k * kWarpThreads + lane;
    if (at >= 0 && at < columns) row[at] = own[k * kWarpThreads + lane];
  }
  sync_warp();
}

}  // namespace fusebuild
