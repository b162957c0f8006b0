// Rows of any length, of which each thread has the same columns whatever memory they begin at: aligned words
// are loaded, and what of a thread's columns lies in the word after its own comes from its neighbour's. What
// is stored goes back the same way. All lanes of a warp have columns of one row, side by side.

#pragma once

#include "fusebuild/shifted.cuh"

namespace fusebuild {

// The first of the aligned words after those of a vector.
template <typename T, int N>
using NextWord = Packed<T, sizeof(typename Packed<T, N>::Word) / sizeof(T)>;

// Elements of an aligned word.
template <typename T, int N>
constexpr int kPerWord = sizeof(typename Packed<T, N>::Word) / sizeof(T);

// Bit k says whether a row of so many `columns` has column `col` + k.
template <int N, typename Index>
FUSEBUILD_DEVICE unsigned inside_up_to(Index col, Index columns) {
  const Index left = columns - col;
  return left >= N ? (1u << N) - 1 : left > 0 ? (1u << static_cast<int>(left)) - 1 : 0u;
}

// The last lane of a warp has no neighbour that would have the word after its own.
FUSEBUILD_DEVICE bool is_last_lane() { return thread_x() % kWarpThreads == kWarpThreads - 1; }

// The aligned words of `tensor` from the one with element `offset` on: N elements, zeros where it has none.
// It begins aligned, and has `size` elements.
template <int N, typename T>
FUSEBUILD_DEVICE Packed<T, N> load_words(const T* tensor, int64_t offset, int64_t size) {
  const int64_t first = offset - offset % kPerWord<T, N>;
  return load_packed_up_to<N>(tensor + first, size - first);
}

// The word after those, which only the last lane needs; others have anything.
template <int N, typename T>
FUSEBUILD_DEVICE NextWord<T, N> load_next_word(const T* tensor, int64_t offset, int64_t size) {
  const int64_t first = offset - offset % kPerWord<T, N> + N;
  NextWord<T, N> next = {};
  if (is_last_lane()) next = load_packed_up_to<kPerWord<T, N>>(tensor + first, size - first);
  return next;
}

// The N elements of a thread that begin `shift` elements after those of its `words`, or as many less whole
// words: the lane after it, or `next`, has the rest. All lanes of a warp take part.
template <int N, typename T>
FUSEBUILD_DEVICE Packed<T, N> realigned(const Packed<T, N>& words, const NextWord<T, N>& next, int shift) {
  using Word = typename Packed<T, N>::Word;
  constexpr int kWords = Packed<T, N>::kWords;
  const Word neighbours = shuffle_down(words.words[0], 1);
  const Word after = is_last_lane() ? next.words[0] : neighbours;
  uint32_t registers[(kWords + 1) * sizeof(Word) / 4];
  memcpy(registers, words.words, kWords * sizeof(Word));
  memcpy(registers + kWords * sizeof(Word) / 4, &after, sizeof(Word));
  return pack(cut_out<N, T>(registers, shift % kPerWord<T, N>));
}

// Begins to copy the aligned words of `tensor` from the one with element `offset` on to a thread's place in
// shared memory, and behind that of its warp's last lane the word after those. Zeros where it has none: it
// begins aligned, and has `size` elements.
template <int N, typename T>
FUSEBUILD_DEVICE void copy_words(Packed<T, N>* place, const T* tensor, int64_t offset, int64_t size) {
  constexpr int kWords = Packed<T, N>::kWords;
  const int64_t first = offset - offset % kPerWord<T, N>;
  const int words = is_last_lane() ? kWords + 1 : kWords;
  FUSEBUILD_UNROLL
  for (int w = 0; w <= kWords; ++w) {
    if (w == words) break;
    const int64_t begin = first + w * kPerWord<T, N>;
    auto* word = reinterpret_cast<NextWord<T, N>*>(place) + w;
    if (begin + kPerWord<T, N> <= size)
      copy_async<kPerWord<T, N>>(word, tensor + begin);
    else
      *word = load_packed_up_to<kPerWord<T, N>>(tensor + begin, size - begin);
  }
}

// The N elements of a thread that begin `shift` elements after its words there, or as many less whole words:
// the place beside it, which the lane after it has, has the rest.
template <int N, typename T>
FUSEBUILD_DEVICE Vec<T, N> load_realigned(const Packed<T, N>* place, int shift) {
  constexpr int kWords = Packed<T, N>::kWords;
  uint32_t registers[(kWords + 1) * sizeof(NextWord<T, N>) / 4];
  memcpy(registers, place, sizeof(registers));
  return cut_out<N, T>(registers, shift % kPerWord<T, N>);
}

// Stores what the row `row` has at columns `col` + k, as far as it has so many `columns`: by the aligned
// vector that begins as many elements before them as its words do, whose first elements the lane before this
// one has. All lanes of a warp take part.
template <int N, typename Index, typename T>
FUSEBUILD_DEVICE void store_realigned(T* row, Index col, Index columns, const Vec<T, N>& values) {
  using Word = typename Packed<T, N>::Word;
  constexpr int kWords = Packed<T, N>::kWords;
  const int shift = static_cast<int>(place_of(row + col) % kPerWord<T, N>);
  const int lane = thread_x() % kWarpThreads;
  const Packed<T, N> own = pack(values);
  const Word before = shuffle_index(own.words[kWords - 1], lane > 0 ? lane - 1 : 0);
  const bool has_before = lane > 0 && col > 0;
  uint32_t registers[(kWords + 1) * sizeof(Word) / 4];
  memcpy(registers, &before, sizeof(Word));
  memcpy(registers + sizeof(Word) / 4, own.words, kWords * sizeof(Word));
  const Vec<T, N> aligned = shift > 0 ? cut_out<N, T>(registers, kPerWord<T, N> - shift) : values;
  const Index first = col - shift;  // the column of the aligned vector's first element
  if ((shift == 0 || has_before) && columns - first >= N) {
    store(row + first, aligned);
  } else {
    const Index begin = has_before ? first : col;
    FUSEBUILD_UNROLL
    for (int k = 0; k < N; ++k)
      if (first + k >= begin && first + k < columns) row[first + k] = aligned[k];
  }
  if (shift == 0 || lane != kWarpThreads - 1) return;
  FUSEBUILD_UNROLL
  for (int k = 0; k < N; ++k)
    if (k >= N - shift && col + k < columns) row[col + k] = values[k];
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

// Stores the first `count` of N elements, which need not be aligned.
template <typename T, int N, typename Index>
FUSEBUILD_DEVICE void store_elements(T* address, const Vec<T, N>& values, Index count) {
  FUSEBUILD_UNROLL
  for (int k = 0; k < N; ++k)
    if (k < count) address[k] = values[k];
}

}  // namespace fusebuild
