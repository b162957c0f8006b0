// Mean and variance in one read.
//
// While a thread reads, it keeps sums of x - shift and of its square: three operations an element and no
// division (Chan, Golub and LeVeque, "Algorithms for Computing the Sample Variance: Analysis and
// Recommendations", The American Statistician 37, 1983, on shifted data). The shift is at first the thread's
// first element, and moves to the mean of what was read each time that has grown four- to eightfold. Where it
// is the mean of the first c of n elements, the groups' distance is part of m2, the sum of squared
// deviations, and the sum of squares is at most n / c times m2: no more than that can taking n (shift -
// mean)^2 from it magnify its relative error, and an outlier at the start, which is the worst case, soon
// counts for little.
//
// What threads, blocks and partial results hold is merged by the pairwise formula of the same authors. That
// takes the difference of two means, so means are doubles until the end: in float, each would be off by a
// part of its own size, and a mean of 10^4 deviations would cost m2 four digits. An infinite element makes
// both results NaN or infinite.

#pragma once

#include "fusebuild/reduce.cuh"

namespace fusebuild {

// part / whole, a number of elements, at least 1: rounded as a division is, by the same steps, without the
// tests and the call for what is near the ends of a float's range. Where combining has branches, no compiler
// loads the next partial result before it is done with the one at hand.
FUSEBUILD_DEVICE float share_of(float part, float whole) {
  const float estimate = approximate_reciprocal(whole);
  const float inverse = ::fmaf(estimate, ::fmaf(-whole, estimate, 1.0f), estimate);
  const float share = part * inverse;
  return ::fmaf(inverse, ::fmaf(-whole, share, part), share);
}
FUSEBUILD_DEVICE double share_of(double part, double whole) { return part / whole; }

template <typename T>
struct Welford {
  struct State {
    double v0;  // mean
    T v1;       // m2, the sum of squared deviations from the mean: never negative
    T v2;       // number of elements, as a weight: rounded where T does not hold it
  };
  static FUSEBUILD_DEVICE State identity() { return {0.0, T(0), T(0)}; }
  static FUSEBUILD_DEVICE State combine(const State& a, const State& b) {
    const T count = a.v2 + b.v2;
    const T share = share_of(b.v2, count > T(1) ? count : T(1));
    const double way = b.v0 - a.v0;
    // Beside nothing, delta is the mean of the other, whose square may be more than T holds: it has no
    // weight.
    const T delta = T(way), weight = a.v2 * share;
    return {a.v0 + way * double(share), a.v1 + b.v1 + delta * (delta * weight), count};
  }
  // The mean in the end, NaN of nothing.
  static FUSEBUILD_DEVICE T mean(const State& total) { return total.v2 > T(0) ? T(total.v0) : T(NAN); }
};

// 2^-18 of about the square root of x > 0, a power of two, and 1 / that. That of a float comes from its bits:
// all columns of a thread ask for theirs at once, while it loads nothing.
template <typename T>
struct Grid {
  T size, inverse;
};
FUSEBUILD_DEVICE Grid<double> grid_of(double x) {
  const int exponent = ::ilogb(x) / 2 - 18;
  return {::ldexp(1.0, exponent), ::ldexp(1.0, -exponent)};
}
FUSEBUILD_DEVICE Grid<float> grid_of(float x) {
  constexpr int kBias = 127, kMantissa = 23;
  int bits;
  memcpy(&bits, &x, sizeof(bits));
  const int exponent = ((bits >> kMantissa) - kBias) / 2 - 18;
  const int size = (kBias + exponent) << kMantissa, inverse = (kBias - exponent) << kMantissa;
  Grid<float> grid;
  memcpy(&grid.size, &size, sizeof(size));
  memcpy(&grid.inverse, &inverse, sizeof(inverse));
  return grid;
}

// What a thread keeps while it reads.
template <typename T>
struct Moments {
  T shift = T(0), sum = T(0), squares = T(0);

  FUSEBUILD_DEVICE void add(T x, bool is_first) {
    if (is_first) shift = x;
    const T centered = x - shift;
    sum += centered;
    squares += centered * centered;
  }
  // Moves the shift to the mean of the `count` elements that were added, on a grid on which sums of narrow
  // elements less the shift are exact until it moves again: they are of eight times as many, whose mean is
  // off by less than 4 deviations of a mean. Low bits of the shift would round every sum the same way.
  FUSEBUILD_DEVICE void recenter(int64_t count) {
    const T old = shift;
    shift += share_of(sum, T(count));
    if (squares > T(0)) {
      const Grid<T> grid = grid_of(squares);
      shift = rint(shift * grid.inverse) * grid.size;
    }
    const T way = shift - old;
    const T rest = sum - T(count) * way;
    squares = maximum(squares - way * (sum + rest), T(0));
    sum = rest;
  }
  // The state of the `count` elements that were added.
  FUSEBUILD_DEVICE typename Welford<T>::State state(int64_t count) const {
    if (count == 0) return Welford<T>::identity();
    const T offset = share_of(sum, T(count));
    return {double(shift) + double(offset), maximum(squares - sum * offset, T(0)), T(count)};
  }
};

template <typename T, int N>
FUSEBUILD_DEVICE States<Welford<T>, N> states(const Moments<T> (&moments)[N], int64_t count) {
  States<Welford<T>, N> result;
  FUSEBUILD_UNROLL
  for (int k = 0; k < N; ++k) result[k] = moments[k].state(count);
  return result;
}

// The same where the last element of column k was added if bit k of `last` is set.
template <typename T, int N>
FUSEBUILD_DEVICE States<Welford<T>, N> states(const Moments<T> (&moments)[N], int64_t count, unsigned last) {
  States<Welford<T>, N> result;
  FUSEBUILD_UNROLL
  for (int k = 0; k < N; ++k) result[k] = moments[k].state(count - ((last >> k & 1) == 0));
  return result;
}

// Recenters columns when they have grown eightfold since they had `centered` elements, at first one.
template <typename Index, typename... Columns>
FUSEBUILD_DEVICE void recenter(Index& centered, Index count, Columns&... columns) {
  if (count / 8 < centered) return;
  centered = count;
  (
      [&] {
        FUSEBUILD_UNROLL
        for (auto& moments : columns) moments.recenter(count);
      }(),
      ...);
}

// How often a loop from `first` by `step` runs before it reaches `end`.
template <typename Index>
FUSEBUILD_DEVICE Index steps(Index first, Index end, Index step) {
  return first < end ? (end - first + step - 1) / step : 0;
}

// How many steps of `step` a loop from `first` makes before it reaches `end`, where it makes `unroll` at a
// time and then leaves as many to each of the other `turns` - 1.
template <typename Index>
FUSEBUILD_DEVICE Index steps_in_turns(Index first, Index end, Index step, Index unroll, Index turns) {
  if (first >= end) return 0;
  const Index round = turns * unroll * step;
  const Index rounds = (end - 1 - first) / round;
  const Index last = steps<Index>(first + rounds * round, end, step);
  return rounds * unroll + (last < unroll ? last : unroll);
}

}  // namespace fusebuild
