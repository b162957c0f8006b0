// Rows of any length that begin alike, so that nothing of them has to be moved over: where vectors lie where
// memory is aligned, a thread that walks such rows alone has the same columns of each of them.

#pragma once

#include "fusebuild/shifted.cuh"

namespace fusebuild {

// Rows of one kind: each begins `shift` elements after an aligned vector does. They are those between `first`
// and `last`, so many apart as there are kinds; none where `last` is not after `first`.
struct RowsAlike {
  int64_t first, last;
  int shift;
};

// Rows of `columns` elements, side by side in tensors that begin aligned: row r begins at element r *
// columns, so those whose numbers agree modulo `kinds` begin alike. They are shared in the order of their
// kinds, evenly: no walker has more than one row above the others, and where `walkers` are a multiple of the
// kinds, each has rows of one kind. A walker leaves one part of what it adds up to for each kind that it has
// rows of, and one without rows where the next walker begins another kind than that its last row is of. So
// there are parts() in all, whatever the rows are.
template <int N>
struct ShareOfAlike {
  int64_t rows, columns, walkers;
  int kinds;

  FUSEBUILD_DEVICE ShareOfAlike(int64_t rows, int64_t columns, int64_t walkers)
      : rows(rows),
        columns(columns),
        walkers(walkers),
        kinds(rows > walkers ? places_of_rows<N>(columns) : 1) {}

  FUSEBUILD_DEVICE int64_t parts() const { return walkers + kinds - 1; }

  // The first part of a walker; that of the one after the last is parts().
  FUSEBUILD_DEVICE int64_t first_part(int64_t walker) const {
    return walker == 0 ? 0 : walker < walkers ? walker + kind_of(begin(walker)) : parts();
  }

  // The rows of a walker's part.
  FUSEBUILD_DEVICE RowsAlike part(int64_t walker, int64_t number) const {
    const int64_t kind = number - walker, own = begin_of(kind);
    const int64_t from = begin(walker) > own ? begin(walker) : own;
    const int64_t to = begin(walker + 1) < begin_of(kind + 1) ? begin(walker + 1) : begin_of(kind + 1);
    const int64_t before = first_of(kind) - own * kinds, first = before + from * kinds;
    return {first, before + to * kinds, shift_of<N>(first * columns)};
  }

 private:
  static FUSEBUILD_DEVICE int64_t divide_up(int64_t number, int64_t divisor) {
    return (number + divisor - 1) / divisor;
  }

  // How many rows are those of the walkers, or of the kinds, before this one.
  FUSEBUILD_DEVICE int64_t begin(int64_t walker) const { return divide_up(rows * walker, walkers); }
  FUSEBUILD_DEVICE int64_t begin_of(int64_t kind) const { return divide_up(rows * kind, kinds); }

  // The kind of a row in the order of kinds.
  FUSEBUILD_DEVICE int64_t kind_of(int64_t place) const {
    const int64_t kind = rows > 0 ? place * kinds / rows : 0;
    return kind < kinds ? kind : kinds - 1;
  }

  // The first row of a kind. The first rows % kinds of them begin kinds that have one row more than others.
  FUSEBUILD_DEVICE int64_t first_of(int64_t kind) const {
    const int64_t longer = rows % kinds, before = divide_up(longer * kind, kinds);
    return divide_up(longer * (kind + 1), kinds) > before ? before : longer + kind - before;
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
