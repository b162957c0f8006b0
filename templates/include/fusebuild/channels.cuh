// What a block has of a tensor whose channels it has to itself: for each outer index a run of neighbours in
// memory, in the aligned vectors around it.

#pragma once

#include "fusebuild/batch.cuh"
#include "fusebuild/divide.cuh"
#include "fusebuild/math.cuh"
#include "fusebuild/shifted.cuh"

namespace fusebuild {

// The smallest power of two that is no less than `number`, at least 1, is 2 to this.
FUSEBUILD_DEVICE int power_from(int number) {
  return number > 1 ? 32 - leading_zeros(static_cast<uint32_t>(number - 1)) : 0;
}

// Of kThreads, 2 to this share each of `own` channels: so many that none has more than one of the `parts` of
// it, if there are as many threads.
template <int kThreads>
FUSEBUILD_DEVICE int sharing(int own, int parts) {
  return smaller(power_from(kThreads) - power_from(own), power_from(parts));
}

// As inside_of, where most vectors are inside with all of their elements, which takes fewer steps to say.
template <int N>
FUSEBUILD_DEVICE unsigned mostly_inside(int column, int columns) {
  return column >= 0 && columns - column >= N ? kAllOf<N> : inside_of<N>(column, columns);
}

// Runs of `length` elements, `period` apart, the first one from element `begin` of a tensor on. A tile has
// `vectors` of N elements for each, one run after another; to divide by that is to multiply with its
// `reciprocal`.
template <int N>
struct Runs {
  int begin, length, period, vectors;
  int64_t reciprocal;

  // Where a vector of the tile lies: in the tensor, and from which element of its run on, which is negative
  // where it begins before that.
  struct Place {
    int at, column;
  };
  FUSEBUILD_DEVICE Place place(int vector) const {
    const Divided own = divided(vector, vectors, reciprocal);
    const int start = begin + own.quotient * period;
    const int column = own.remainder * N - shift_of<N>(start);
    return {start + column, column};
  }

  // The vector of the tile that has element `column` of the run number `run`.
  FUSEBUILD_DEVICE int vector(int run, int column) const { return element(run, column) / N; }

  // Where the tile has element `column` of the run number `run`.
  FUSEBUILD_DEVICE int element(int run, int column) const {
    return run * vectors * N + shift_of<N>(begin + run * period) + column;
  }
};

// The mean and the squares of elements that are on chip, and may be walked twice: first they are added up,
// then they are squared around their mean. What they are beside it in sum, which is what it lost, corrects
// both. So threads add up single numbers, in a fourth of the time in which they merge states of moments. The
// mean is rounded to a grid of 2^-12 of how large elements are, so that narrow ones less the mean are exact:
// else all would be rounded the same way, which a mean near 0 shows.
template <typename T>
struct AroundMean {
  T sum = T(0), sizes = T(0), mean = T(0), beside = T(0), squares = T(0);

  // First: those elements that have a bit in `inside`; others are 0 then.
  template <int N>
  FUSEBUILD_DEVICE void gather(Vec<T, N>& elements, unsigned inside) {
    leave(elements, inside);
    sum += combine_all<Sum>(elements);
    Vec<T, N> terms;
    FUSEBUILD_UNROLL
    for (int k = 0; k < N; ++k) terms[k] = abs(elements[k]);
    sizes += combine_all<Sum>(terms);
  }

  // The same where others have added up some of them.
  FUSEBUILD_DEVICE void gather(T added) {
    sum += added;
    sizes += abs(added);
  }

  // Between: when all `count` of them are in the sums.
  FUSEBUILD_DEVICE void settle(int count) {
    const T size = share_of(sizes, T(count));
    const Grid<T> grid = grid_of(T(4096) * size * size);
    mean = rint(share_of(sum, T(count)) * grid.inverse) * grid.size;
  }

  // Then: the same ones again.
  template <int N>
  FUSEBUILD_DEVICE void add(Vec<T, N> elements, unsigned inside) {
    FUSEBUILD_UNROLL
    for (int k = 0; k < N; ++k) elements[k] -= mean;
    leave(elements, inside);
    beside += combine_all<Sum>(elements);
    FUSEBUILD_UNROLL
    for (int k = 0; k < N; ++k) elements[k] *= elements[k];
    squares += combine_all<Sum>(elements);
  }

  // What `count` elements have, all of which were added.
  FUSEBUILD_DEVICE typename Welford<T>::State state(int count) const {
    const T way = share_of(beside, T(count));
    return {double(mean) + double(way), maximum(squares - beside * way, T(0)), T(count)};
  }

 private:
  template <int N>
  static FUSEBUILD_DEVICE void leave(Vec<T, N>& elements, unsigned inside) {
    if (inside == kAllOf<N>) return;
    FUSEBUILD_UNROLL
    for (int k = 0; k < N; ++k) elements[k] = is_inside(inside, k) ? elements[k] : T(0);
  }
};

// Where a block has a value of its channel number `slot`, which may be as many as N before the first one:
// after every N there is a gap, so that the N-th ones that threads read at a time lie in different banks.
template <int N>
FUSEBUILD_CONSTEXPR int place_of_channel(int slot) {
  return N + slot + (N + slot) / N;
}

// Those of N neighbouring channels.
template <int N, typename T>
FUSEBUILD_DEVICE Vec<T, N> of_columns(const T* values, int slot) {
  Vec<T, N> result;
  FUSEBUILD_UNROLL
  for (int k = 0; k < N; ++k) result[k] = values[place_of_channel<N>(slot + k)];
  return result;
}

// What N neighbouring elements have of the channels they are of: the first is element `column` of its run,
// whose channels have `size` elements each, or lies before that.
template <int N>
struct OfChannels {
  int first, left, size;  // the channel of the first element; how many it has from there on

  FUSEBUILD_DEVICE OfChannels(int column, int size, int64_t reciprocal)
      : first(divided(column < 0 ? 0 : column, size, reciprocal).quotient),
        left((first + 1) * size - column),
        size(size) {}

  // Whether all elements are of one of the `channels`, or beyond the last of them.
  FUSEBUILD_DEVICE bool is_one(int channels) const { return left >= N || first + 1 == channels; }

  // That one's of `values`.
  template <typename T>
  FUSEBUILD_DEVICE T of_one(const T* values) const {
    return values[place_of_channel<N>(first)];
  }

  // Those of `values`, one a channel, of which some may be read beyond the last that an element has.
  template <typename T>
  FUSEBUILD_DEVICE Vec<T, N> of(const T* values) const {
    Vec<T, N> result;
    if (size >= N) {  // two channels at most
      const T own = values[place_of_channel<N>(first)], next = values[place_of_channel<N>(first + 1)];
      FUSEBUILD_UNROLL
      for (int k = 0; k < N; ++k) result[k] = k < left ? own : next;
    } else {
      int channel = first, rest = left;
      FUSEBUILD_UNROLL
      for (int k = 0; k < N; ++k) {
        result[k] = values[place_of_channel<N>(channel)];
        const bool ends = --rest == 0;
        channel += ends ? 1 : 0;
        rest = ends ? size : rest;
      }
    }
    return result;
  }
};

}  // namespace fusebuild
