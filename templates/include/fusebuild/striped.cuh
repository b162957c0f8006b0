// Rows of any length, of which each thread has the same columns whatever memory they begin at: the aligned
// vectors around a row are copied to shared memory as they lie, and threads take single elements of it there,
// so many apart as there are threads. Neighbours have neighbouring elements, which fall to different banks.
// What is stored goes back the same way.

#pragma once

#include "fusebuild/alike.cuh"
#include "fusebuild/warp_tiles.cuh"

namespace fusebuild {

// `count` elements of a tensor from the one with number `first` on, and the aligned vectors of N around them.
// In shared memory `place` is that of the first vector; each of kThreads threads has those so many apart.
template <int N, int kThreads, typename Index>
struct Around {
  int64_t begin;     // the first element of the first vector
  Index shift, end;  // of the elements, from there on
  int thread;

  FUSEBUILD_DEVICE Around(int64_t first, Index count, int thread)
      : begin(first - shift_of<N>(first)),
        shift(shift_of<N>(first)),
        end(count > 0 ? shift + count : 0),
        thread(thread) {}

  // Whether the thread has the vector that begins with element `first`.
  FUSEBUILD_DEVICE bool has(Index first) const { return first / N % kThreads == thread; }
};

// A tile from its element `first` on: its address is found once, and not for each access again.
template <typename T>
FUSEBUILD_DEVICE TileOf<T> tile_from(const TileOf<T>& tile, int first) {
  const T* source = tile.source + first;
  forget_origin(source);
  return {tile.place + first, source};
}

// Begins to copy the vectors that begin every kStep elements, as far as they begin before `end`.
template <int kPlaces, int kStep, int N, typename... Tiles>
FUSEBUILD_DEVICE void copy_apart(int end, const Tiles&... tiles) {
  FUSEBUILD_UNROLL
  for (int v = 0; v < kPlaces; v += kStep)
    if (v < end) (copy_vector<N>(tiles, v), ...);
}

template <int N, typename T>
FUSEBUILD_DEVICE void copy_part(const TileOf<T>& tile, int i, int readable) {
  copy_up_to<N>(reinterpret_cast<Packed<T, N>*>(tile.place + i), tile.source + i, readable);
}

// Begins to copy those of several tensors, each to kPlaces places. The tensors begin aligned; what they lack
// from element `size` on is zero.
template <int kPlaces, int N, int kThreads, typename Index, typename... Tiles>
FUSEBUILD_DEVICE void copy_around(const Around<N, kThreads, Index>& around, int64_t size,
                                  const Tiles&... tiles) {
  const Index readable = readable_of<N>(around.end, size - around.begin);
  const Index whole = readable < around.end + N ? readable & -N : around.end;
  const int own = around.thread * N;
  copy_apart<kPlaces, kThreads * N, N>(whole - own, tile_from(tiles, own)...);
  if (whole < around.end && around.has(whole)) (copy_part<N>(tiles, whole, readable - whole), ...);
}

// Stores those that lie in kPlaces places, and nothing beside them. A thread reads what it may copy to next.
template <int kPlaces, int N, int kThreads, typename Index, typename T>
FUSEBUILD_DEVICE void store_around(const Around<N, kThreads, Index>& around, T* target, const T* place) {
  const int own = around.thread * N;
  FUSEBUILD_UNROLL
  for (int v = 0; v < kPlaces; v += kThreads * N) {
    const Index i = v + own;
    if (i >= around.shift && i + N <= around.end) store_packed(target + i, load_shared_packed<N>(place + i));
  }
  const Index last = around.end & -N, count = around.end - around.shift;
  if (around.shift > 0 && around.end > 0 && around.has(0))
    store_inside(target, load_shared<N>(place), inside_of<N>(-around.shift, count));
  if (last < around.end && (last > 0 || around.shift == 0) && around.has(last))
    store_inside(target + last, load_shared<N>(place + last), inside_of<N>(last - around.shift, count));
}

// N elements from `address` on, so many apart.
template <int N, int kApart, typename T>
FUSEBUILD_DEVICE Vec<T, N> load_striped(const T* address) {
  Vec<T, N> values;
  FUSEBUILD_UNROLL
  for (int k = 0; k < N; ++k) values[k] = address[k * kApart];
  return values;
}

template <int kApart, typename T, int N>
FUSEBUILD_DEVICE void store_striped(T* address, const Vec<T, N>& values) {
  FUSEBUILD_UNROLL
  for (int k = 0; k < N; ++k) address[k * kApart] = values[k];
}

// The same where only `left` elements are there; zeros in place of those beyond.
template <int N, int kApart, typename Index, typename T>
FUSEBUILD_DEVICE Vec<T, N> load_striped_up_to(const T* address, Index left) {
  Vec<T, N> values = {};
  FUSEBUILD_UNROLL
  for (int k = 0; k < N; ++k)
    if (k * kApart < left) values[k] = address[k * kApart];
  return values;
}

template <int kApart, typename Index, typename T, int N>
FUSEBUILD_DEVICE void store_striped_up_to(T* address, const Vec<T, N>& values, Index left) {
  FUSEBUILD_UNROLL
  for (int k = 0; k < N; ++k)
    if (k * kApart < left) address[k * kApart] = values[k];
}

}  // namespace fusebuild
