// Vectors that lie where memory is aligned, whatever row their elements are of: rows of any length move in
// 16-byte accesses so. The first and the last vector of a row share elements with the rows beside it; those
// are loaded with the row's own, but neither combined nor stored.

#pragma once

#include "fusebuild/vec.cuh"

namespace fusebuild {

// How far before element `first` of a tensor the aligned vector begins that it is in.
template <int N>
FUSEBUILD_DEVICE int shift_of(int64_t first) {
  return static_cast<int>(first & (N - 1));
}

// How many elements from a row's first one on may be read: `left` are there in all, and no vector of the row
// reaches further than N beyond it.
template <int N, typename Index>
FUSEBUILD_DEVICE Index readable_of(Index columns, int64_t left) {
  return left < int64_t(columns) + N ? static_cast<Index>(left) : columns + N;
}

// The column of the row's last vector where the tensor has that in part: its `readable` elements do not fill
// it. Else `columns`: before it, all vectors are whole. The row begins `shift` elements after an aligned one.
template <int N, typename Index>
FUSEBUILD_DEVICE Index whole_vectors_of(Index columns, Index shift, Index readable) {
  const Index last = (columns + shift - 1) / N * N - shift;
  return last + N <= readable ? columns : last;
}

// A bit for each of N elements.
template <int N>
constexpr unsigned kAllOf = (1u << N) - 1;

// Bit k says whether column `col` + k is one of the row's; at least one is.
template <int N, typename Index>
FUSEBUILD_DEVICE unsigned inside_of(Index col, Index columns) {
  constexpr unsigned kAll = kAllOf<N>;
  const unsigned from_first = col < 0 ? kAll << static_cast<int>(-col) : kAll;
  const unsigned after_last = columns - col < N ? kAll << static_cast<int>(columns - col) : 0;
  return from_first & ~after_last & kAll;
}

FUSEBUILD_DEVICE bool is_inside(unsigned inside, int k) { return (inside >> k & 1) != 0; }

// The column of the row that is the nearest to `col`: what may be read in its place.
template <typename Index>
FUSEBUILD_DEVICE Index nearest_column(Index col, Index columns) {
  const Index from_first = col < 0 ? 0 : col;
  return from_first < columns ? from_first : columns - 1;
}

// The aligned vector at `address`, where only `readable` elements may be read, at least one; those beyond are
// zero.
template <int N, Hint kHint = Hint::kNone, typename Index, typename T>
FUSEBUILD_DEVICE Packed<T, N> load_packed_up_to(const T* address, Index readable) {
  if (readable >= N) return load_packed_with_hint<kHint, N>(address);
  Vec<T, N> values = {};
  FUSEBUILD_UNROLL
  for (int k = 0; k < N - 1; ++k)
    if (k < readable) values[k] = address[k];
  return pack(values);
}

// Stores those of an aligned vector's elements that are `inside`.
template <typename T, int N>
FUSEBUILD_DEVICE void store_inside(T* address, const Vec<T, N>& values, unsigned inside) {
  Packed<T, N> packed[1] = {pack(values)};
  if constexpr (sizeof(T) < 4 && sizeof(packed[0].words[0]) >= 4)
    stay_packed(packed);  // one by one they are taken out of it, not kept beside it
  if (inside == kAllOf<N>) {
    store_packed(address, packed[0]);
  } else {
    const Vec<T, N> each = unpack(packed[0]);
    FUSEBUILD_UNROLL
    for (int k = 0; k < N; ++k)
      if (is_inside(inside, k)) address[k] = each[k];
  }
}

// Stores an aligned vector where only `writable` elements may be written.
template <int N, typename Index, typename T>
FUSEBUILD_DEVICE void store_up_to(T* address, const Vec<T, N>& values, Index writable) {
  store_inside(address, values, inside_of<N>(Index(0), writable));
}

// All N elements of an aligned vector, or one of them.
template <typename T, int N>
struct AllOrOne {
  Packed<T, N> all;
  T one;
};

// All at `address`, or the one with the number `alone` if that is not negative.
template <int N, typename T>
FUSEBUILD_DEVICE AllOrOne<T, N> load_all_or_one(const T* address, int alone) {
  AllOrOne<T, N> loaded = {};
  if (alone < 0) {
    loaded.all = load_packed<N>(address);
  } else {
    loaded.one = address[alone];
  }
  return loaded;
}
template <typename T, int N>
FUSEBUILD_DEVICE Vec<T, N> unpack(const AllOrOne<T, N>& loaded, int alone) {
  Vec<T, N> values = unpack(loaded.all);
  if (alone < 0) return values;
  FUSEBUILD_UNROLL
  for (int k = 0; k < N; ++k)
    if (k == alone) values[k] = loaded.one;
  return values;
}

template <typename T, int N>
FUSEBUILD_DEVICE void store_all_or_one(T* address, const Vec<T, N>& values, int alone) {
  store_inside(address, values, alone < 0 ? kAllOf<N> : 1u << alone);
}

// What a row has beside its whole aligned vectors of N elements: a few elements `before` the first one, and a
// few `after` the last one. A row that reaches no vector has nothing but elements before it.
template <int N>
struct Edges {
  int before, after;
  int64_t columns;

  // Of the row of so many `columns` that begins at element `first` of a tensor.
  FUSEBUILD_DEVICE Edges(int64_t first, int64_t columns) : columns(columns) {
    const int misses = static_cast<int>(-first & (N - 1));
    before = misses < columns ? misses : static_cast<int>(columns);
    after = static_cast<int>((columns - before) & (N - 1));
  }

  FUSEBUILD_DEVICE int count() const { return before + after; }

  // The column of edge element `number`, which is less than count().
  FUSEBUILD_DEVICE int64_t column(int number) const {
    return number < before ? number : columns - count() + number;
  }
};

// The same where kRoom vectors less are taken, if need be, so that the row has room after its last one:
// wherever it begins, a vector at its columns `before` + k * N leaves it those from k * N to (k + 1 + kRoom)
// * N. With room for one vector, what begins aligned has all of the words around such a vector; with room for
// two, what begins anywhere does. A row of (kRoom + 1) * N or more has `count` edge elements, from kRoom * N
// to (kRoom + 1) * N - 1; a shorter one has nothing else.
template <int N, typename Index, int kRoom = 1>
struct RoomyEdges {
  Index columns;
  int count, before;

  FUSEBUILD_DEVICE RoomyEdges(int64_t first, Index columns)
      : columns(columns),
        count(static_cast<int>(columns < (kRoom + 1) * N ? columns : columns % N + kRoom * N)),
        before(static_cast<int>(-first & (N - 1))) {}

  // The column after the last vector's.
  FUSEBUILD_DEVICE Index end() const { return before + columns - count; }

  // The column of edge element `number`, which is less than `count`.
  FUSEBUILD_DEVICE Index column(int number) const {
    return number < before ? number : columns - count + number;
  }
};

// The same for tensors each of which begins anywhere. Vectors begin where one of them is aligned, its row's
// first element at `place` of a vector; a row has room for a vector before its first one and for one after
// its last one: all aligned words around a vector are the row's own, wherever they begin in another tensor. A
// row of 4 * N or more has from 3 * N to 4 * N - 1 edge elements.
template <int N, typename Index>
struct FreeEdges : RoomyEdges<N, Index, 3> {
  FUSEBUILD_DEVICE FreeEdges(int64_t place, Index columns) : RoomyEdges<N, Index, 3>(place, columns) {
    this->before += N;
  }
};

// Each register gets what the one `kStep` above it has, or keeps its own.
template <int kStep, int kCount>
FUSEBUILD_DEVICE void move_down(uint32_t (&registers)[kCount], bool moves) {
  FUSEBUILD_UNROLL
  for (int r = 0; r < kCount - kStep; ++r) registers[r] = moves ? registers[r + kStep] : registers[r];
}

// The N elements that begin so many elements `beyond` the first of the words in `registers`.
template <int N, typename T, int kRegisters>
FUSEBUILD_DEVICE Vec<T, N> cut_out(uint32_t (&registers)[kRegisters], int beyond) {
  using Word = typename Packed<T, N>::Word;
  const int bytes = beyond * static_cast<int>(sizeof(T));
  if constexpr (sizeof(Word) == 16) move_down<2>(registers, bytes & 8);
  if constexpr (sizeof(Word) >= 8) move_down<1>(registers, bytes & 4);
  if constexpr (sizeof(T) < 4) {
    FUSEBUILD_UNROLL
    for (int r = 0; r < kRegisters - 1; ++r)
      registers[r] =
          static_cast<uint32_t>((uint64_t(registers[r + 1]) << 32 | registers[r]) >> 8 * (bytes % 4));
  }
  Packed<T, N> packed;
  memcpy(packed.words, registers, sizeof(packed.words));
  return unpack(packed);
}

// The aligned words around N elements that begin in the first of them.
template <typename T, int N>
struct AlignedWords {
  using Word = typename Packed<T, N>::Word;
  static constexpr int kWords = Packed<T, N>::kWords + 1, kPerWord = sizeof(Word) / sizeof(T);
  static_assert(sizeof(Word) >= 4, "a vector fills registers");

  uint32_t registers[kWords * sizeof(Word) / 4];
};

// Those around the N elements at `address`, which lies so many elements `beyond` an aligned word: the tensor
// has them up to `last`, the one that is read in place of those after it.
template <int N, typename T>
FUSEBUILD_DEVICE AlignedWords<T, N> load_aligned_words(const T* address, int beyond,
                                                       int last = std::numeric_limits<int>::max()) {
  using Words = AlignedWords<T, N>;
  using Word = typename Words::Word;
  const Word* words = reinterpret_cast<const Word*>(address - beyond % Words::kPerWord);
  Words loaded;
  FUSEBUILD_UNROLL
  for (int w = 0; w < Words::kWords; ++w) {
    const Word word = load_word<Hint::kNone>(words + (w < last ? w : last));
    memcpy(loaded.registers + w * sizeof(Word) / 4, &word, sizeof(Word));
  }
  return loaded;
}

// The N elements that begin so many elements `beyond` the first of `words`.
template <typename T, int N>
FUSEBUILD_DEVICE Vec<T, N> cut(AlignedWords<T, N> words, int beyond) {
  return cut_out<N, T>(words.registers, beyond % AlignedWords<T, N>::kPerWord);
}

// The N elements at `address`, cut out of the aligned words around them.
template <int N, typename T>
FUSEBUILD_DEVICE Vec<T, N> load_cut(const T* address, int beyond,
                                    int last = std::numeric_limits<int>::max()) {
  return cut(load_aligned_words<N>(address, beyond, last), beyond);
}

// How many elements an address lies beyond an aligned word of vectors of N.
template <int N, typename T>
FUSEBUILD_DEVICE int beyond_word(const T* address) {
  return static_cast<int>(place_of(address) % AlignedWords<T, N>::kPerWord);
}

// The same for an address that may lie anywhere.
template <int N, typename T>
FUSEBUILD_DEVICE Vec<T, N> load_cut_anywhere(const T* address) {
  return load_cut<N>(address, beyond_word<N>(address));
}

// Stores N elements at an address that may lie anywhere.
template <typename T, int N>
FUSEBUILD_DEVICE void store_anywhere(T* address, const Vec<T, N>& values) {
  using Word = typename Packed<T, N>::Word;
  if (reinterpret_cast<uintptr_t>(address) % sizeof(Word) == 0) {
    store(address, values);
  } else {
    FUSEBUILD_UNROLL
    for (int k = 0; k < N; ++k) address[k] = values[k];
  }
}

// The same for the first of them that are `writable`, at least one.
template <typename T, int N, typename Index>
FUSEBUILD_DEVICE void store_anywhere_up_to(T* address, const Vec<T, N>& values, Index writable) {
  if (writable >= N) {
    store_anywhere(address, values);
  } else {
    FUSEBUILD_UNROLL
    for (int k = 0; k < N - 1; ++k)
      if (k < writable) address[k] = values[k];
  }
}

// The aligned words around N elements that begin anywhere in a tensor: of 8 bytes, since to take a vector out
// of larger ones takes more instructions and registers than to load it by them saves.
template <typename T, int N>
struct WordsAround {
  static constexpr int kBytes = sizeof(Vec<T, N>), kPerWord = (kBytes < 8 ? kBytes : 8) / sizeof(T);
  static constexpr int kWords = N / kPerWord + 1;

  Packed<T, kPerWord> words[kWords];
};

// Those around the N elements from `first` on of a tensor of `total` elements, which begins aligned and has
// at least the first of them: what it lacks is zero. Its neighbouring bytes another block is about to read.
template <int N, typename Index, typename T>
FUSEBUILD_DEVICE WordsAround<T, N> load_words_around(const T* tensor, Index first, Index total) {
  constexpr int kPerWord = WordsAround<T, N>::kPerWord, kWords = WordsAround<T, N>::kWords;
  const int beyond = shift_of<kPerWord>(first);
  const T* begin = tensor + (first - beyond);
  const Index readable = total - (first - beyond);
  WordsAround<T, N> around = {};
  if (readable >= kWords * kPerWord) {
    FUSEBUILD_UNROLL
    for (int w = 0; w < kWords - 1; ++w)
      around.words[w] = load_packed_with_hint<Hint::kWide, kPerWord>(begin + w * kPerWord);
    if (beyond != 0)
      around.words[kWords - 1] =
          load_packed_with_hint<Hint::kWide, kPerWord>(begin + (kWords - 1) * kPerWord);
    return around;
  }
  FUSEBUILD_UNROLL
  for (int w = 0; w < kWords; ++w) {
    Vec<T, kPerWord> values = {};
    FUSEBUILD_UNROLL
    for (int k = 0; k < kPerWord; ++k)
      if (w * kPerWord + k < readable) values[k] = begin[w * kPerWord + k];
    around.words[w] = pack(values);
  }
  return around;
}

// The same for elements from any place on, before the tensor or beyond its end: what it lacks is zero.
template <int N, typename Index, typename T>
FUSEBUILD_DEVICE WordsAround<T, N> load_words_near(const T* tensor, Index first, Index total) {
  using Unsigned = std::make_unsigned_t<Index>;
  constexpr int kPerWord = WordsAround<T, N>::kPerWord, kWords = WordsAround<T, N>::kWords;
  const int beyond = shift_of<kPerWord>(first);
  const Index begin = first - beyond, room = total - kWords * kPerWord;
  WordsAround<T, N> around = {};
  if (Unsigned(begin) < Unsigned(room < 0 ? 0 : room + 1)) {  // it has all of the words
    FUSEBUILD_UNROLL
    for (int w = 0; w < kWords - 1; ++w)
      around.words[w] = load_packed<kPerWord>(tensor + begin + w * kPerWord);
    if (beyond != 0)
      around.words[kWords - 1] = load_packed<kPerWord>(tensor + begin + (kWords - 1) * kPerWord);
    return around;
  }
  if (begin <= -kWords * kPerWord || begin >= total) return around;
  FUSEBUILD_UNROLL
  for (int w = 0; w < kWords; ++w) {
    const Index at = begin + w * kPerWord;
    if (at >= 0 && at < total) around.words[w] = load_packed_up_to<kPerWord>(tensor + at, total - at);
  }
  return around;
}

// The N elements from `first` on.
template <typename T, int N, typename Index>
FUSEBUILD_DEVICE Packed<T, N> cut_around(const WordsAround<T, N>& around, Index first) {
  constexpr int kPerWord = WordsAround<T, N>::kPerWord;
  uint32_t registers[sizeof(around.words) / 4];
  memcpy(registers, around.words, sizeof(registers));
  return pack(cut_out<N, T>(registers, shift_of<kPerWord>(first)));
}

// What the row `row`, which begins aligned, has at columns `col` + k, where is_within() says that it has all
// of the words around them; else anything. What is loaded so takes no branch.
template <int N, typename Index, typename T>
FUSEBUILD_DEVICE Vec<T, N> load_cut_within(const T* row, Index col, Index columns) {
  constexpr int kPerWord = sizeof(typename Packed<T, N>::Word) / sizeof(T);
  return load_cut<N>(row + col, static_cast<int>(col % kPerWord),
                     static_cast<int>(columns / kPerWord - 1 - col / kPerWord));
}
template <int N, typename Index, typename T>
FUSEBUILD_DEVICE bool is_within(const T*, Index col, Index columns) {
  constexpr int kPerWord = sizeof(typename Packed<T, N>::Word) / sizeof(T);
  return col % kPerWord == 0 || col / kPerWord + Packed<T, N>::kWords < columns / kPerWord;
}

// Puts into `values` what the row `row` has from column `col` on, aligned or not: cut out of the aligned
// words around it. False where those are not all of the row, and could lie outside of the tensor.
template <int N, typename Index, typename T>
FUSEBUILD_DEVICE bool load_unaligned(const T* row, Index col, Index columns, Vec<T, N>& values) {
  constexpr int kPerWord = sizeof(typename Packed<T, N>::Word) / sizeof(T);
  const int before = static_cast<int>((place_of(row) + col) % kPerWord);
  if (col < before || columns - col < N + kPerWord - before) return false;
  values = load_cut<N>(row + col, before);
  return true;
}

// N elements from `address`, one by one.
template <int N, typename T>
FUSEBUILD_DEVICE Vec<T, N> load_elements(const T* address) {
  Vec<T, N> values;
  FUSEBUILD_UNROLL
  for (int k = 0; k < N; ++k) values[k] = address[k];
  return values;
}

// What the row `row` has at columns `col` + k, aligned or not; outside of the row, what it has nearest to
// them.
template <int N, typename Index, typename T>
FUSEBUILD_DEVICE Vec<T, N> load_beside(const T* row, Index col, Index columns) {
  Vec<T, N> values;
  if (!load_unaligned(row, col, columns, values)) {
    FUSEBUILD_UNROLL
    for (int k = 0; k < N; ++k) values[k] = row[nearest_column<Index>(col + k, columns)];
  }
  return values;
}

// The same for a row that begins again where it ends.
template <int N, typename Index, typename T>
FUSEBUILD_DEVICE Vec<T, N> load_around(const T* row, Index col, Index columns) {
  Vec<T, N> values;
  if (!load_unaligned(row, col, columns, values)) {
    FUSEBUILD_UNROLL
    for (int k = 0; k < N; ++k) {
      values[k] = row[col];
      col = col + 1 < columns ? col + 1 : 0;
    }
  }
  return values;
}

// What stands at places `place` + k where each of the `count` elements of a tensor stands at `run`
// neighbouring places, and its first one follows its last.
template <int N, typename Index, typename T>
FUSEBUILD_DEVICE Vec<T, N> load_runs(const T* tensor, Index place, Index count, Index run) {
  const Index number = place / run;
  Index at = number % count, left = run - (place - number * run);
  Vec<T, N> values;
  if (run >= N) {
    const T first = tensor[at], second = tensor[left < N && at + 1 < count ? at + 1 : left < N ? 0 : at];
    FUSEBUILD_UNROLL
    for (int k = 0; k < N; ++k) values[k] = k < left ? first : second;
  } else {
    FUSEBUILD_UNROLL
    for (int k = 0; k < N; ++k) {
      values[k] = tensor[at];
      if (--left > 0) continue;
      left = run;
      at = at + 1 < count ? at + 1 : 0;
    }
  }
  return values;
}

}  // namespace fusebuild
