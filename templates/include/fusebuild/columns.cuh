// Runs of neighbours in memory, as channels.cuh has them, whose columns are added up before channels are: a
// thread has one vector of every so many runs, in which the same columns lie at the same places. What is one
// number of a channel it looks up once so, and no element is asked of which channel it is.

#pragma once

#include "fusebuild/channels.cuh"

namespace fusebuild {

// The sum of those of N values that have a bit in `inside`.
template <typename T, int N>
FUSEBUILD_DEVICE T sum_inside(Vec<T, N> values, unsigned inside) {
  FUSEBUILD_UNROLL
  for (int k = 0; k < N; ++k) values[k] = is_inside(inside, k) ? values[k] : T(0);
  return combine_all<Sum>(values);
}

// What a thread has of columns: their sums, then how far elements are from `center` in sum, and in squares.
template <typename T, int N>
struct ColumnMoments {
  Vec<T, N> sums{}, center{}, beside{}, squares{};

  FUSEBUILD_DEVICE void gather(const Vec<T, N>& elements) {
    FUSEBUILD_UNROLL
    for (int k = 0; k < N; ++k) sums[k] += elements[k];
  }
  FUSEBUILD_DEVICE void add(const Vec<T, N>& elements) {
    FUSEBUILD_UNROLL
    for (int k = 0; k < N; ++k) {
      const T way = elements[k] - center[k];
      beside[k] += way;
      squares[k] += way * way;
    }
  }
};

// As store_inside, where the elements inside are the first or the last ones: three stores have them, of one,
// two and four elements.
template <typename T, int N>
FUSEBUILD_DEVICE void store_side(T* address, const Vec<T, N>& values, unsigned inside) {
  if constexpr (sizeof(T) == 2 && N == 8) {
    if (inside != kAllOf<N> && (inside & (1u | 1u << (N - 1))) != 0) {
      const bool are_last = (inside & 1u) == 0;
      const int count = count_bits(inside), first = are_last ? N - count : 0;
      uint32_t words[N / 2];
      memcpy(words, pack(values).words, sizeof(words));
      const auto word_at = [&](int at) {
        const uint32_t lower = at & 4 ? words[2] : words[0], upper = at & 4 ? words[3] : words[1];
        return at & 2 ? upper : lower;
      };
      const int one = are_last ? first : count - 1, two = are_last ? first + (count & 1) : count & 4;
      if (count & 1)
        store_word(reinterpret_cast<unsigned short*>(address + one),
                   static_cast<unsigned short>(word_at(one) >> (are_last ? 16 : 0)));
      if (count & 2) store_word(reinterpret_cast<unsigned int*>(address + two), word_at(two));
      if (count & 4)
        store_word(reinterpret_cast<uint2*>(address + (are_last ? 4 : 0)),
                   are_last ? make_uint2(words[2], words[3]) : make_uint2(words[0], words[1]));
      return;
    }
  }
  store_inside(address, values, inside);
}

// What a thread of a (kThreads, 1, 1) block has of runs: vectors of N whose first element is `column`, from
// the run number `row` on, of every `height`-th one; if it has none, `row` is no run. Runs that are so far
// apart begin at the same place of a vector: `height` runs are all that there are, or as many as threads can
// have at a time so. At least one run has a thread for each of its vectors.
template <int N, int kThreads>
struct Columns {
  Runs<N> runs;
  int size, height;  // elements of a channel that are neighbours; runs that threads have at a time
  int pieces;        // vectors around those elements
  int64_t piece_reciprocal, reciprocal;  // of `pieces` and of `size`, where that is more than 1
  int row, column = 0;
  unsigned inside = 0;  // bit k: element k of its vectors is one of the runs'

  FUSEBUILD_DEVICE Columns(const Runs<N>& runs, int outer, int size = 1, int pieces = 1,
                           int64_t piece_reciprocal = 0, int64_t reciprocal = 0)
      : runs(runs),
        size(size),
        pieces(pieces),
        piece_reciprocal(piece_reciprocal),
        reciprocal(reciprocal),
        row(outer) {
    height = divided(kThreads, runs.vectors, runs.reciprocal).quotient;
    height = height < outer ? height & -places_of_rows<N>(runs.period) : outer;
    const Divided own = divided(thread_x(), runs.vectors, runs.reciprocal);
    if (own.quotient >= height) return;
    const int from = own.remainder * N - shift_of<N>(runs.begin + own.quotient * runs.period);
    if (from >= runs.length) return;
    row = own.quotient;
    column = from;
    inside = mostly_inside<N>(column, runs.length);
  }

  // Where in the tensor its vector of a run lies.
  FUSEBUILD_DEVICE int at(int run) const { return runs.begin + run * runs.period + column; }

  // How many parts of a channel threads leave.
  FUSEBUILD_DEVICE int parts() const { return size < N ? height : height * pieces; }

  // What the channels of its columns have of `values`.
  template <typename T>
  FUSEBUILD_DEVICE Vec<T, N> of(const T* values) const {
    if (size == 1) return of_columns<N>(values, column);
    return OfChannels<N>(column, size, reciprocal).of(values);
  }

  // Lets the sums of columns meet in those of channels, of which the thread takes every `width`-th part of
  // the one number `slot` from number `lane` on. All threads of the block must call this; `places` are
  // kThreads * N ones that nobody reads.
  template <typename T>
  FUSEBUILD_DEVICE void meet_sums(T* places, const ColumnMoments<T, N>& own, int slot, int lane, int width,
                                  AroundMean<T>& channel) const {
    leave(places, own.sums);
    sync_block();
    visit(slot, lane, width, [&](int place) { channel.gather(places[place]); });
  }

  // The same of what is beside the mean, and its square.
  template <typename T>
  FUSEBUILD_DEVICE void meet_squares(T* places, const ColumnMoments<T, N>& own, int slot, int lane, int width,
                                     AroundMean<T>& channel) const {
    constexpr int kApart = 2 * kThreads;
    const bool have_room = N >= 4 && size >= N;  // both
    leave(places, own.beside);
    if (have_room) leave(places + kApart, own.squares);
    sync_block();
    if (have_room) {
      visit(slot, lane, width, [&](int place) {
        channel.beside += places[place];
        channel.squares += places[kApart + place];
      });
      return;
    }
    visit(slot, lane, width, [&](int place) { channel.beside += places[place]; });
    sync_block();
    leave(places, own.squares);
    sync_block();
    visit(slot, lane, width, [&](int place) { channel.squares += places[place]; });
  }

 private:
  // Leaves what the thread has of its columns, a number for each; where no vector has more than two channels,
  // for each of those.
  template <typename T>
  FUSEBUILD_DEVICE void leave(T* places, const Vec<T, N>& sums) const {
    if (inside == 0) return;
    if (size < N) {
      store_shared(places + thread_x() * N, sums);
      return;
    }
    const int left = OfChannels<N>(column, size, reciprocal).left;
    const unsigned own = left < N ? inside & ~(kAllOf<N> << left) : inside;
    const Vec<T, 2> both = {{sum_inside(sums, own), sum_inside(sums, inside & ~own)}};
    store_shared(places + thread_x() * 2, both);
  }

  // Calls `use` with the place of each number that is left of a channel and the thread's to take.
  template <typename Use>
  FUSEBUILD_DEVICE void visit(int slot, int lane, int width, Use use) const {
    if (size < N) {
      for (int run = lane; run < height; run += width) {
        const int begin = runs.element(run, slot * size);
        for (int k = 0; k < size; ++k) use(begin + k);
      }
      return;
    }
    for (int part = lane; part < height * pieces; part += width) {
      const Divided piece = divided(part, pieces, piece_reciprocal);
      const int begin = runs.element(piece.quotient, slot * size), vector = begin / N + piece.remainder;
      if (vector * N >= begin + size) continue;
      use(2 * vector + (slot > 0 && vector * N < begin ? 1 : 0));
    }
  }
};

}  // namespace fusebuild
