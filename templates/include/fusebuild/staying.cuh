// Vectors of a row that begins anywhere, brought to shared memory while a block does something else: first
// the aligned words around them are copied, then each thread takes its vectors out of its own words and those
// of the next thread.

#pragma once

#include "fusebuild/shifted.cuh"

namespace fusebuild {

// The places of a chunk of what so many threads have: one more, for the word after the last thread's.
FUSEBUILD_CONSTEXPR int places_of(int threads) { return threads + 1; }

// Begins to copy the first of the two words around the vector at `address`; where the thread is the last one
// of its block and has that vector, the `next` one, too. A vector is a word.
template <int N, typename T>
FUSEBUILD_DEVICE void copy_around(Packed<T, N>* place, const T* address, bool next) {
  static_assert(Packed<T, N>::kWords == 1, "a vector is a word");
  const T* begin = address - place_of(address) % N;
  copy_async(place, begin);
  if (next) copy_async(place + 1, begin + N);
}

// Takes the `count` vectors of the thread, which begin so many elements `beyond` its words, out of those, a
// chunk of `places` after another: for all threads of a block, which know from a barrier that what all of
// them copied is there. One after another: registers are full of the row.
template <int kChunks, int N, typename T>
FUSEBUILD_DEVICE void align_words(Packed<T, N>* words, int places, int beyond, int count) {
  if (beyond == 0) return;
  FUSEBUILD_UNROLL_BY(1)
  for (int c = 0; c < kChunks; ++c) {
    Packed<T, N>* const own = words + c * places;
    Packed<T, N> vector = {};
    if (c < count) {
      const Packed<T, N> both[2] = {own[0], own[1]};
      uint32_t registers[sizeof(both) / 4];
      memcpy(registers, both, sizeof(both));
      vector = pack(cut_out<N, T>(registers, beyond));
    }
    sync_block();  // the thread before may still read the word
    if (c < count) own[0] = vector;
  }
}

}  // namespace fusebuild
