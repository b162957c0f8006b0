// What a thread combines a batch of elements at a time, where lambdas would take them one by one: N values
// that it has in registers, most often the elements of a vector. A batch's own values meet as a tree.

#pragma once

#include "fusebuild/reduce.cuh"
#include "fusebuild/shifted.cuh"
#include "fusebuild/welford.cuh"

namespace fusebuild {

template <typename Op, typename T, int N>
FUSEBUILD_DEVICE T combine_all(Vec<T, N> values) {
  FUSEBUILD_UNROLL
  for (int half = N / 2; half > 0; half /= 2) {
    FUSEBUILD_UNROLL
    for (int k = 0; k < half; ++k) values[k] = Op::combine(values[k], values[k + half]);
  }
  return values[0];
}

// --- The largest value v0 of a state, and the sum v1 of exp(x - v0)

// exp(x) of an x that is not above 0, or infinite, or NaN. In float to 4 units in the last place near 0, and
// to |x| / 2^23 of itself far below it, where it counts for little beside the 1 of the largest value; what is
// subnormal is 0. An exponential is one instruction so, and not eight.
FUSEBUILD_DEVICE float exp_of_negative(float x) { return exp2_or_zero(x * 1.44269504f); }
FUSEBUILD_DEVICE double exp_of_negative(double x) { return exp(x); }

// What merges states, in place of the lambda that says the same: a third of its instructions.
template <typename T>
struct ExpSum {
  struct State {
    T v0;  // the largest value
    T v1;  // sum of exp(x - largest)
  };
  static FUSEBUILD_DEVICE State combine(const State& a, const State& b) {
    const T largest = maximum(a.v0, b.v0);
    const T shift = isinf(largest) ? T(0) : largest;
    return {largest, a.v1 * exp_of_negative(a.v0 - shift) + b.v1 * exp_of_negative(b.v0 - shift)};
  }
};

// Combines `x` into `state`: one exponential for each element and one for the sum so far. An infinite maximum
// shifts nothing, so that no infinity meets its like. What is -infinity changes nothing.
template <typename T, int N>
FUSEBUILD_DEVICE void add_exponentials(typename ExpSum<T>::State& state, const Vec<T, N>& x) {
  const T largest = maximum(state.v0, combine_all<Max>(x));
  const T shift = isinf(largest) ? T(0) : largest;
  Vec<T, N> terms;
  FUSEBUILD_UNROLL
  for (int k = 0; k < N; ++k) terms[k] = exp_of_negative(x[k] - shift);
  state.v1 = state.v1 * exp_of_negative(state.v0 - shift) + combine_all<Sum>(terms);
  state.v0 = largest;
}

// --- The mean v0, the sum v1 of squared deviations from it, and the number v2 of elements

// What merges states, in place of the lambda that says the same: its division takes no tests.
template <typename T>
struct MeanAndSquares {
  struct State {
    T v0;  // mean
    T v1;  // sum of squared deviations
    T v2;  // number of elements
  };
  static FUSEBUILD_DEVICE State combine(const State& a, const State& b) {
    const T count = a.v2 + b.v2, delta = b.v0 - a.v0;
    const T share = share_of(b.v2, count > T(1) ? count : T(1));
    return {a.v0 + delta * share, a.v1 + b.v1 + delta * delta * (a.v2 * share), count};
  }
};

// What a thread keeps while it reads batches, for states of this kind or of Welford: sums of what is left of
// their elements by a shift, as Moments has for single ones. That is at first the first element, then the
// mean of the first eight or more, and the mean of all each time that they are eight times as many.
template <typename T, typename Index>
struct BatchMoments {
  Moments<T> moments;
  Index count = 0, next = 0;  // elements; how many of them next move the shift

  template <int N>
  FUSEBUILD_DEVICE void add(const Vec<T, N>& batch) {
    if (count >= next) move(batch[0]);
    Vec<T, N> terms;
    FUSEBUILD_UNROLL
    for (int k = 0; k < N; ++k) terms[k] = batch[k] - moments.shift;
    add_centered(terms, N);
  }

  // The same of those elements that have a bit in `inside`, at least one.
  template <int N>
  FUSEBUILD_DEVICE void add(const Vec<T, N>& batch, unsigned inside) {
    if (count >= next) {
      T first = batch[N - 1];
      FUSEBUILD_UNROLL
      for (int k = N - 2; k >= 0; --k) first = is_inside(inside, k) ? batch[k] : first;
      move(first);
    }
    Vec<T, N> terms;
    FUSEBUILD_UNROLL
    for (int k = 0; k < N; ++k) terms[k] = is_inside(inside, k) ? batch[k] - moments.shift : T(0);
    add_centered(terms, count_bits(inside));
  }

  // The state of what was added; `none` where that is nothing.
  template <typename State>
  FUSEBUILD_DEVICE State state(const State& none) const {
    if (count == 0) return none;
    using Mean = decltype(none.v0);
    const T offset = share_of(moments.sum, T(count));
    const T m2 = maximum(moments.squares - moments.sum * offset, T(0));
    return {Mean(moments.shift) + Mean(offset), m2, T(count)};
  }

 private:
  FUSEBUILD_DEVICE void move(T first) {
    if (count == 0)
      moments.shift = first;
    else
      moments.recenter(count);
    next = count == 0 ? 8 : 8 * count;
  }
  template <int N>
  FUSEBUILD_DEVICE void add_centered(Vec<T, N>& terms, int added) {
    moments.sum += combine_all<Sum>(terms);
    FUSEBUILD_UNROLL
    for (int k = 0; k < N; ++k) terms[k] *= terms[k];
    moments.squares += combine_all<Sum>(terms);
    count += added;
  }
};

// What the squares of `count` elements around `center` add up to, where the elements add up to `sum` and the
// squares around their own mean to `squares`. Those of no elements, which have no mean, are 0.
FUSEBUILD_DEVICE float squares_around(float squares, float sum, float count, float center) {
  if (count == 0) return squares;
  const float way = share_of(sum, count) - center;
  return squares + count * (way * way);
}

// --- The first of the largest or smallest values

// Whether neither is NaN and `a` is not above `b`, or below it where Best is Min.
template <typename Best, typename T>
FUSEBUILD_DEVICE bool is_no_better(T a, T b) {
  return std::is_same_v<Best, Max> ? a <= b : a >= b;
}

// What a thread keeps while it reads batches in the order of their indices: the batch that has the first of
// the best values so far, by Best, which is Max or Min. NaN is better than every number. Which of its values
// it is, is found in the end alone.
template <typename Best, typename T, int N, typename Index>
struct FirstBest {
  T best = Best::template identity<T>();
  Vec<T, N> values = splat<N>(best);
  static constexpr Index kNothing = std::numeric_limits<Index>::min();
  Index first = kNothing;

  // The values have the indices `start`, `start` + 1, … Those with negative indices, and those after the
  // last, are the identity.
  FUSEBUILD_DEVICE void add(const Vec<T, N>& batch, Index start) {
    const T own = combine_all<Best>(batch);
    // By & and |, which take no branches.
    const bool is_better = (first == kNothing) | (!is_no_better<Best>(own, best) & (best == best));
    FUSEBUILD_UNROLL
    for (int k = 0; k < N; ++k) values[k] = is_better ? batch[k] : values[k];
    best = N == 1 ? values[0] : is_better ? own : best;  // one register for both
    first = is_better ? start : first;
  }

  // The state of what was added; `none` where that is nothing.
  template <typename State>
  FUSEBUILD_DEVICE State state(const State& none) const {
    State result = none;
    FUSEBUILD_UNROLL
    for (int k = N - 1; k >= 0; --k) {
      const int64_t index = int64_t(first) + k;
      const bool is_best = values[k] == best || (values[k] != values[k] && best != best);
      if (is_best && index >= 0) result = {values[k], index};
    }
    return first == kNothing ? none : result;
  }
};

template <typename Op, typename Best, typename T, int N, typename Index, int kColumns>
FUSEBUILD_DEVICE States<Op, kColumns> states(const FirstBest<Best, T, N, Index> (&columns)[kColumns],
                                             const typename Op::State& none) {
  States<Op, kColumns> result;
  FUSEBUILD_UNROLL
  for (int k = 0; k < kColumns; ++k) result[k] = columns[k].state(none);
  return result;
}

// --- A sum of very many

// What a thread keeps while it sums batches: the sum, and all that its additions lost by rounding, which is
// as exact as it is small.
struct LongSum {
  float sum = 0.0f, lost = 0.0f;

  template <int N>
  FUSEBUILD_DEVICE void add(const Vec<float, N>& batch) {
    const float own = combine_all<Sum>(batch), before = sum;
    sum = before + own;
    const float added = sum - before;
    lost += (before - (sum - added)) + (own - added);
  }

  // What is lost to a sum that is infinite is no number.
  FUSEBUILD_DEVICE float total() const { return isfinite(lost) ? sum + lost : sum; }
};

// --- The element at a position

// Which of the N neighbours from `first` on has the position `position`; -1 when none has.
template <int N>
FUSEBUILD_DEVICE int place_in(int64_t position, int64_t first) {
  const uint64_t place = static_cast<uint64_t>(position) - static_cast<uint64_t>(first);
  return place < uint64_t(N) ? static_cast<int>(place) : -1;
}

// The same in 32 bits. Whether `position` fits them is asked before a loop that goes through the row; `first`
// is further than N from the largest of 32 bits.
template <int N>
FUSEBUILD_DEVICE int place_in(int64_t position, int32_t first) {
  const bool fits = position == static_cast<int32_t>(position);
  const uint32_t place = static_cast<uint32_t>(position) - static_cast<uint32_t>(first);
  return fits && place < uint32_t(N) ? static_cast<int>(place) : -1;
}

}  // namespace fusebuild
