// Tiles of whole rows in shared memory: rows of any length lie side by side there as they do in global
// memory, from and to which they move in aligned vectors, whatever row an element is of.

#pragma once

#include "fusebuild/cast.cuh"
#include "fusebuild/reduce.cuh"
#include "fusebuild/shifted.cuh"

namespace fusebuild {

// How many neighbouring elements of a row of `columns` each of its 2^`row_shift` threads has: kPerWord, which
// is how many elements a word has, times an odd number. What the threads of a row read together is in
// different banks of shared memory then.
template <int kPerWord>
FUSEBUILD_DEVICE int elements_of_thread(int columns, int row_shift) {
  const int least = (columns + (1 << row_shift) - 1) >> row_shift;
  return ((least + kPerWord - 1) / kPerWord | 1) * kPerWord;
}

// 2 to this many rows apart are those that a warp takes together, so that they begin as many banks apart as
// a row has threads.
template <int kPerWord>
FUSEBUILD_DEVICE int shift_of_rows(int columns, int row_shift) {
  int shift = (1 << row_shift) < kWarpThreads ? row_shift + kPerWord / 2 : 0;
  for (; shift > 0 && columns % 2 == 0; columns /= 2) --shift;
  return shift;
}

// Begins to copy the first `end` elements at `source`, an aligned address, to the tile; what else is in the
// last vector of them comes with it. `readable` elements may be read. By all threads of a block of kThreads.
template <int N, int kThreads, typename T>
FUSEBUILD_DEVICE void copy_flat(T* tile, const T* source, int end, int64_t readable) {
  const int whole = readable < end + N ? static_cast<int>(readable) & -N : end;
  for (int i = thread_x() * N; i < whole; i += kThreads * N)
    copy_async<N>(reinterpret_cast<Packed<T, N>*>(tile + i), source + i);
  const int i = whole + thread_x();
  if (i < end) tile[i] = source[i];  // what the tensor's last vector lacks
}

// Copies `columns` elements, wherever they begin, and widens them; those of each thread of a row, who has
// `count` of them, begin `skew` places later than those before it end.
template <int kThreads, typename Wide, typename T>
FUSEBUILD_DEVICE void copy_columns(Wide* places, const T* source, int columns, int count, int skew) {
  const float owner = 1.0f / static_cast<float>(count);
  FUSEBUILD_UNROLL_BY(4)
  for (int i = thread_x(); i < columns; i += kThreads)
    places[i + skew * static_cast<int>((static_cast<float>(i) + 0.5f) * owner)] = cast<Wide>(source[i]);
}

// Stores the elements of the tile from `begin` to `end`, the first of which is in its first vector, to where
// they belong from `target` on, an aligned address. By all threads of a block of kThreads.
template <int N, int kThreads, typename T>
FUSEBUILD_DEVICE void store_flat(T* target, const T* tile, int begin, int end) {
  const int first = begin == 0 ? 0 : N, last = end & -N;
  for (int i = first + thread_x() * N; i < last; i += kThreads * N)
    store(target + i, load_shared<N>(tile + i));
  // What tiles share with those beside them.
  const int before = begin + thread_x(), after = (last < first ? first : last) + thread_x();
  if (before < first && before < end) target[before] = tile[before];
  if (after < end) target[after] = tile[after];
}

// Walks the `held` elements that a thread has from column `first` on, kMost at most, by vectors of N. Calls
// visit(number, column, N) for each that is whole and visit(number, column, count) for what is left, in parts
// of N / 2, N / 4, … elements, each of which has a number of its own: numbers and counts are constants there.
template <int kMost, int N, typename Index, typename Visitor>
FUSEBUILD_DEVICE void for_each_vector(Index first, int held, const Visitor& visit) {
  FUSEBUILD_UNROLL
  for (int c = 0; c < kMost / N; ++c) {
    if (c * N + N > held) break;
    visit(c, first + c * N, N);
  }
  Index col = first + (held & -N);
  FUSEBUILD_UNROLL
  for (int part = 0; N >> part > 1; ++part) {
    const int count = N >> (part + 1);
    if ((held & count) == 0) continue;
    visit(kMost / N + part, col, count);
    col += count;
  }
}

// The `present` elements at `address` in shared memory, aligned or not, widened; zeros beyond.
template <typename Wide, int N, typename T>
FUSEBUILD_DEVICE Vec<Wide, N> load_present(const T* address, int present) {
  Vec<Wide, N> values = {};
  FUSEBUILD_UNROLL
  for (int k = 0; k < N; ++k) {
    if (k >= present) break;
    values[k] = cast<Wide>(address[k]);
  }
  return values;
}

template <typename T, int N>
FUSEBUILD_DEVICE void store_present(T* address, const Vec<T, N>& values, int present) {
  FUSEBUILD_UNROLL
  for (int k = 0; k < N; ++k) {
    if (k >= present) break;
    address[k] = values[k];
  }
}

// Reduces across each row's `threads` neighbouring threads, a power of two and no more than a warp has. Every
// thread of a row gets the same bits. All threads of the warp must call this.
template <typename... Accumulators>
FUSEBUILD_DEVICE void reduce_threads(int threads, const Accumulators&... accumulators) {
  FUSEBUILD_UNROLL
  for (int mask = kWarpThreads / 2; mask > 0; mask /= 2)
    if (mask < threads) (combine_with_lane<kWarpThreads>(accumulators, mask), ...);
}

}  // namespace fusebuild
