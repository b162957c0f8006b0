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

// Begins to copy the elements from `begin` to `end` at `source`, an aligned address, to the tile; what else
// is in the last vector of them comes with it, as what is in the first one has come with those before.
// `readable` elements may be read. By all threads of a block of kThreads.
template <int N, int kThreads, typename T>
FUSEBUILD_DEVICE void copy_flat(T* tile, const T* source, int end, int64_t readable, int begin = 0) {
  const int whole = readable < end + N ? static_cast<int>(readable) & -N : end;
  for (int i = (begin + N - 1 & -N) + thread_x() * N; i < whole; i += kThreads * N)
    copy_async<N>(reinterpret_cast<Packed<T, N>*>(tile + i), source + i);
  const int i = (whole < begin ? begin : whole) + thread_x();
  if (i < end) tile[i] = source[i];  // what the tensor's last vector lacks
}

// The rows of each of the kStages that a tile comes in, at most: whole turns, in which threads take so many.
template <int kStages>
FUSEBUILD_DEVICE int rows_of_stage(int tile_rows, int turn_rows) {
  return (tile_rows + kStages * turn_rows - 1) / (kStages * turn_rows) * turn_rows;
}

// Until the thread's copies for stage `number` of kStages have arrived, which were begun in this order, those
// of each stage as a group.
template <int kStages, int kLater = 0>
FUSEBUILD_DEVICE void wait_stage(int number) {
  if constexpr (kLater + 1 < kStages) {
    if (number + kLater + 1 < kStages) return wait_stage<kStages, kLater + 1>(number);
  }
  wait_copies<kLater>();
}

// Begins to copy `count` elements, wherever they lie, to a tile with room for 16 bytes more: they are as far
// beyond an aligned address there as at `source`. Where the first one is. By all threads of a block of
// kThreads.
template <int kThreads, typename T>
FUSEBUILD_DEVICE const T* copy_anywhere(T* tile, const T* source, int count) {
  constexpr int N = 16 / sizeof(T);
  const int beyond = static_cast<int>(place_of(source) % N);
  T* places = tile + beyond;
  const Edges<N> edges(beyond, count);
  for (int i = edges.before + thread_x() * N; i + N <= count; i += kThreads * N)
    copy_async<N>(reinterpret_cast<Packed<T, N>*>(places + i), source + i);
  if (thread_x() < edges.count()) {
    const int i = static_cast<int>(edges.column(thread_x()));
    places[i] = source[i];
  }
  return places;
}

// Copies `columns` elements, wherever they begin, and widens them.
template <int kThreads, typename Wide, typename T>
FUSEBUILD_DEVICE void copy_columns(Wide* places, const T* source, int columns) {
  FUSEBUILD_UNROLL_BY(4)
  for (int i = thread_x(); i < columns; i += kThreads) places[i] = cast<Wide>(source[i]);
}

// Stores the elements of the tile from `begin` to `end` to where they belong from `target` on, an aligned
// address. By all threads of a block of kThreads.
template <int N, int kThreads, typename T>
FUSEBUILD_DEVICE void store_flat(T* target, const T* tile, int begin, int end) {
  const int first = begin + N - 1 & -N, last = end & -N;
  for (int i = first + thread_x() * N; i < last; i += kThreads * N)
    store(target + i, load_shared<N>(tile + i));
  // What is in a vector with others' elements.
  const int before = begin + thread_x(), after = (last < first ? first : last) + thread_x();
  if (before < first && before < end) target[before] = tile[before];
  if (after < end) target[after] = tile[after];
}

// Begins to copy the first `depth` of the kRows rows of kColumns elements that a tile has from `source`, an
// aligned address. A tile is whole accesses of all threads of a block of kThreads, who all must call this.
template <int N, int kThreads, int kRows, int kColumns, typename T>
FUSEBUILD_DEVICE void copy_tile(T* tile, const T* source, int depth) {
  static_assert(kRows * kColumns % (kThreads * N) == 0, "a tile is whole accesses of all threads");
  const int end = depth * kColumns;
  FUSEBUILD_UNROLL
  for (int first = 0; first < kRows * kColumns; first += kThreads * N) {
    const int i = first + thread_x() * N;
    if (i + N <= end) copy_async<N>(reinterpret_cast<Packed<T, N>*>(tile + i), source + i);
  }
  const int i = (end & -N) + thread_x();
  if (i < end) tile[i] = source[i];  // what the tensor's last vector lacks
}

// Stores them to `target`, an aligned address.
template <int N, int kThreads, int kRows, int kColumns, typename T>
FUSEBUILD_DEVICE void store_tile(T* target, const T* tile, int depth) {
  static_assert(kRows * kColumns % (kThreads * N) == 0, "a tile is whole accesses of all threads");
  const int end = depth * kColumns;
  FUSEBUILD_UNROLL
  for (int first = 0; first < kRows * kColumns; first += kThreads * N) {
    const int i = first + thread_x() * N;
    if (i + N <= end) store(target + i, load_shared<N>(tile + i));
  }
  const int i = (end & -N) + thread_x();
  if (i < end) target[i] = tile[i];
}

// A thread's kRows neighbouring rows of kColumns elements: kColumns vectors in registers, which begin where
// the first row does. The numbers of rows are constants, in loops that are unrolled.
template <typename T, int kRows, int kColumns>
struct ThreadRows {
  Packed<T, kRows> vectors[kColumns];

  // The elements of row `r`, and zeros beyond them.
  template <int N>
  FUSEBUILD_DEVICE Vec<T, N> row(int r) const {
    Vec<T, N> values = {};
    FUSEBUILD_UNROLL
    for (int k = 0; k < kColumns; ++k) {
      const int at = r * kColumns + k;
      values[k] = unpack(vectors[at / kRows])[at % kRows];
    }
    return values;
  }
};

// Those at `address` in shared memory.
template <int kRows, int kColumns, typename T>
FUSEBUILD_DEVICE ThreadRows<T, kRows, kColumns> load_rows(const T* address) {
  ThreadRows<T, kRows, kColumns> rows;
  FUSEBUILD_UNROLL
  for (int i = 0; i < kColumns; ++i)
    rows.vectors[i] = *reinterpret_cast<const Packed<T, kRows>*>(address + i * kRows);
  return rows;
}

// The same for rows that are computed one after the other.
template <typename T, int kRows, int kColumns>
struct RowResults {
  Vec<T, kRows> vectors[kColumns];

  template <int N>
  FUSEBUILD_DEVICE void set_row(int r, const Vec<T, N>& values) {
    FUSEBUILD_UNROLL
    for (int k = 0; k < kColumns; ++k) {
      const int at = r * kColumns + k;
      vectors[at / kRows][at % kRows] = values[k];
    }
  }

  // Stores the vectors that end in row `r` where they belong of the rows at `address` in shared memory: no
  // register waits for later ones.
  FUSEBUILD_DEVICE void store_ended(T* address, int r) const {
    FUSEBUILD_UNROLL
    for (int i = 0; i < kColumns; ++i)
      if ((i + 1) * kRows > r * kColumns && (i + 1) * kRows <= (r + 1) * kColumns)
        *reinterpret_cast<Packed<T, kRows>*>(address + i * kRows) = pack(vectors[i]);
  }
};

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

// Calls visit(number) with `number`, from kLeast to kMost, as a constant.
template <int kMost, int kLeast = 1, typename Visitor>
FUSEBUILD_DEVICE void with_constant(int number, const Visitor& visit) {
  if constexpr (kMost >= kLeast) {
    if (number == kMost)
      visit(std::integral_constant<int, kMost>());
    else
      with_constant<kMost - 1, kLeast>(number, visit);
  }
}

// The elements of a batch that holds `elements`: a power of two, `least` or more.
FUSEBUILD_DEVICE constexpr int batch_of(int elements, int least) {
  int batch = least;
  while (batch < elements) batch *= 2;
  return batch;
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

// The same of floats, two at a time: the first one lies where two may.
template <int N>
FUSEBUILD_DEVICE Vec<float, N> load_pairs(const float* address, int present) {
  static_assert(N % 2 == 0, "vectors are pairs");
  Vec<float, N> values = {};
  FUSEBUILD_UNROLL
  for (int k = 0; k < N; k += 2) {
    if (k >= present) break;
    const Vec<float, 2> pair = k + 1 < present ? load_shared<2>(address + k) : Vec<float, 2>{{address[k]}};
    values[k] = pair[0], values[k + 1] = pair[1];
  }
  return values;
}

// The same as they lie there, in the places of what widen makes of them: threads do not wait for them yet. A
// load of 16 bits fills a register.
template <typename Wide, int N, typename T>
FUSEBUILD_DEVICE Vec<Wide, N> load_to_widen(const T* address, int present) {
  static_assert(sizeof(T) == 2 && sizeof(Wide) == 4, "a register has an element");
  Vec<Wide, N> values = {};
  FUSEBUILD_UNROLL
  for (int k = 0; k < N; ++k) {
    if (k >= present) break;
    uint16_t narrow;
    memcpy(&narrow, address + k, sizeof(narrow));
    const uint32_t filled = narrow;
    memcpy(&values[k], &filled, sizeof(filled));
  }
  return values;
}

template <typename T, typename Wide, int N>
FUSEBUILD_DEVICE void widen(Vec<Wide, N>& values) {
  FUSEBUILD_UNROLL
  for (int k = 0; k < N; ++k) {
    T narrow;
    memcpy(&narrow, &values[k], sizeof(T));
    values[k] = cast<Wide>(narrow);
  }
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

// Reduces across each row's `threads`: a warp, or all kThreads of a block. Every thread of a row gets the
// same bits. All of them must call this.
template <int kThreads, typename... Accumulators>
FUSEBUILD_DEVICE void reduce_team(int threads, ReducePhase& phase, const Accumulators&... accumulators) {
  if (threads <= kWarpThreads) {
    reduce_threads(kWarpThreads, accumulators...);
  } else {
    reduce_row<kThreads, 1>(phase, accumulators...);
  }
}

// A barrier of those threads.
FUSEBUILD_DEVICE void sync_team(int threads) {
  if (threads <= kWarpThreads) {
    sync_warp();
  } else {
    sync_block();
  }
}

}  // namespace fusebuild
