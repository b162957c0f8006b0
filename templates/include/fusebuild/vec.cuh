// Short vectors that move between memory and registers in 16-byte accesses, and shuffles by name.

#pragma once

#include "fusebuild/access.cuh"

namespace fusebuild {

// N values of T side by side, N a power of two. Aligned to its size, to 16 bytes at most.
template <typename T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Vec {
  static_assert(N > 0 && (N & (N - 1)) == 0, "a Vec holds a power of two of values");

  T data[N];

  FUSEBUILD_DEVICE T& operator[](int index) { return data[index]; }
  FUSEBUILD_DEVICE const T& operator[](int index) const { return data[index]; }
};

// The number of the element at `address` in memory: modulo N, its place in an aligned vector of N.
template <typename T>
FUSEBUILD_DEVICE uintptr_t place_of(const T* address) {
  return reinterpret_cast<uintptr_t>(address) / sizeof(T);
}

// Whether a Vec of N elements may begin at each of the `addresses`.
template <int N, typename... T>
FUSEBUILD_DEVICE bool begin_vectors(const T*... addresses) {
  return ((reinterpret_cast<uintptr_t>(addresses) % alignof(Vec<T, N>) == 0) && ...);
}

// Which power of two a number is.
FUSEBUILD_DEVICE int log2_of(int power) { return 31 - leading_zeros(static_cast<uint32_t>(power)); }

// At how many places of an aligned vector of N rows of so many `columns` begin, which lie side by side from
// where one does: rows whose numbers agree modulo this begin at the same one.
template <int N>
FUSEBUILD_DEVICE int places_of_rows(int64_t columns) {
  const int wide = static_cast<int>(columns & (N - 1)) | N;
  return N >> log2_of(wide & -wide);  // by the largest divisor of both
}

// N copies of `value`.
template <int N, typename T>
FUSEBUILD_DEVICE Vec<T, N> splat(T value) {
  Vec<T, N> result;
  FUSEBUILD_UNROLL
  for (int k = 0; k < N; ++k) result[k] = value;
  return result;
}

// A Vec as the words it is loaded in. Taking it apart into values narrower than a register waits for the
// load; copying words does not. What is loaded ahead of its use is kept so.
template <typename T, int N>
struct Packed {
  static constexpr int kBytes = sizeof(Vec<T, N>);
  using Word = typename WordOf<(kBytes < 16 ? kBytes : 16)>::Type;
  static constexpr int kWords = kBytes / sizeof(Word);

  Word words[kWords];
};

template <Hint kHint, int N, typename T>
FUSEBUILD_DEVICE Packed<T, N> load_packed_with_hint(const T* address) {
  using Word = typename Packed<T, N>::Word;
  Packed<T, N> result;
  FUSEBUILD_UNROLL
  for (int w = 0; w < Packed<T, N>::kWords; ++w)
    result.words[w] = load_word<kHint>(reinterpret_cast<const Word*>(address) + w);
  return result;
}

template <typename T, int N>
FUSEBUILD_DEVICE Vec<T, N> unpack(const Packed<T, N>& packed) {
  Vec<T, N> result;
  if constexpr (std::is_same_v<T, __nv_bfloat16> && N > 1) {
    // By shifts of whole registers, which the compiler merges with those of widen(): the upper half of a
    // register becomes a float in one instruction.
    uint32_t registers[N / 2];
    memcpy(registers, packed.words, sizeof(registers));
    FUSEBUILD_UNROLL
    for (int k = 0; k < N; ++k)
      result[k] = __ushort_as_bfloat16(static_cast<unsigned short>(registers[k / 2] >> (16 * (k % 2))));
  } else {
    memcpy(&result, packed.words, sizeof(result));
  }
  return result;
}

template <typename T, int N>
FUSEBUILD_DEVICE Packed<T, N> pack(const Vec<T, N>& values) {
  Packed<T, N> result;
  memcpy(result.words, &values, sizeof(values));
  return result;
}

// Compilers take what is used again and again apart once, and what they have then fills twice the registers.
// Here they forget what the words are made of, and take them apart anew.
template <typename T, int N, int kCount>
FUSEBUILD_DEVICE void stay_packed(Packed<T, N> (&values)[kCount]) {
  FUSEBUILD_UNROLL
  for (int c = 0; c < kCount; ++c) {
    FUSEBUILD_UNROLL
    for (int w = 0; w < Packed<T, N>::kWords; ++w) forget_origin(values[c].words[w]);
  }
}

// N values from `address`, which is aligned to Vec<T, N>. In accesses of 16 bytes, or one of the natural
// size.
template <int N, typename T>
FUSEBUILD_DEVICE Packed<T, N> load_packed(const T* address) {
  return load_packed_with_hint<Hint::kNone, N>(address);
}

template <int N, typename T>
FUSEBUILD_DEVICE Vec<T, N> load(const T* address) {
  return unpack(load_packed<N>(address));
}

// The same, begun where it is written: the compiler moves other loads down to their use, past the stores and
// the exchanges that were to go on meanwhile.
template <int N, typename T>
FUSEBUILD_DEVICE Packed<T, N> load_packed_ahead(const T* address) {
  return load_packed_with_hint<Hint::kAhead, N>(address);
}

// The same of memory whose neighbouring bytes another block is about to read: they come along into L2.
template <int N, typename T>
FUSEBUILD_DEVICE Packed<T, N> load_packed_wide(const T* address) {
  return load_packed_with_hint<Hint::kWide, N>(address);
}

template <typename T, int N>
FUSEBUILD_DEVICE void store_packed(T* address, const Packed<T, N>& packed) {
  using Word = typename Packed<T, N>::Word;
  FUSEBUILD_UNROLL
  for (int w = 0; w < Packed<T, N>::kWords; ++w)
    store_word(reinterpret_cast<Word*>(address) + w, packed.words[w]);
}

template <typename T, int N>
FUSEBUILD_DEVICE void store(T* address, const Vec<T, N>& values) {
  store_packed(address, pack(values));
}

// Between registers and the block's shared memory; load and store are for global memory alone.
template <int N, typename T>
FUSEBUILD_DEVICE Vec<T, N> load_shared(const T* address) {
  return *reinterpret_cast<const Vec<T, N>*>(address);
}
template <int N, typename T>
FUSEBUILD_DEVICE Packed<T, N> load_shared_packed(const T* address) {
  return *reinterpret_cast<const Packed<T, N>*>(address);
}
template <typename T, int N>
FUSEBUILD_DEVICE void store_shared(T* address, const Vec<T, N>& values) {
  *reinterpret_cast<Vec<T, N>*>(address) = values;
}

// Begins to copy N values to shared memory, from an address that is aligned as for load_packed; end_copies
// and wait_copies say when they are there.
template <int N, typename T>
FUSEBUILD_DEVICE void copy_async(Packed<T, N>* place, const T* address) {
  using Word = typename Packed<T, N>::Word;
  static_assert(sizeof(Word) >= 4, "copies have 4, 8 or 16 bytes");
  FUSEBUILD_UNROLL
  for (int w = 0; w < Packed<T, N>::kWords; ++w)
    copy_word_async(&place->words[w], reinterpret_cast<const Word*>(address) + w);
}

// As __shfl_*_sync: the value of the caller's lane ^ mask, of its lane + delta, or of lane `lane` in its
// group of `width` lanes. All lanes of the warp take part. A source beyond the group gives the caller its own
// value.
template <typename T>
FUSEBUILD_DEVICE T shuffle_xor(T value, int mask, int width = kWarpThreads) {
  return shuffle<Shuffle::kXor>(value, mask, width);
}
template <typename T>
FUSEBUILD_DEVICE T shuffle_down(T value, int delta, int width = kWarpThreads) {
  return shuffle<Shuffle::kDown>(value, delta, width);
}
template <typename T>
FUSEBUILD_DEVICE T shuffle_index(T value, int lane, int width = kWarpThreads) {
  return shuffle<Shuffle::kIndex>(value, lane, width);
}

// Asks for the `count` elements from `address` on to be in L2 when they are loaded, by `kThreads` threads.
template <int kThreads, typename T>
FUSEBUILD_DEVICE void expect(const T* address, int thread, int64_t count) {
  constexpr int kSector = 32 / sizeof(T);
  FUSEBUILD_UNROLL_BY(1)
  for (int64_t i = thread * kSector; i < count; i += kThreads * kSector) expect_sector(address + i);
}

}  // namespace fusebuild
