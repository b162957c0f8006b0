// What a block has of a tensor whose channels it has to itself: for each outer index a run of neighbours in
// memory, in the aligned vectors around it.

#pragma once

#include "fusebuild/divide.cuh"
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

  // Where the tile has element `column` of the run number `run`.
  FUSEBUILD_DEVICE int element(int run, int column) const {
    return run * vectors * N + shift_of<N>(begin + run * period) + column;
  }
};

}  // namespace fusebuild
