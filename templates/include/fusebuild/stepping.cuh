// The coordinates of rows that a thread takes one after another, without a division for each.

#pragma once

#include "fusebuild/divisor.cuh"

namespace fusebuild {

// Where every kStep-th row is, from the row `first` on: one coordinate on each axis, the outermost of which
// comes first. `sizes` are those of the kInner axes inside that, from 1 to 2^31 - 1 - kStep. Only the first
// row is divided. Each later one is as far from the one before on every axis as kStep rows are, or one point
// further where the axis inside has come to its end.
template <int kStep, int kInner>
class SteppingRow {
 public:
  template <typename... Sizes>
  FUSEBUILD_DEVICE explicit SteppingRow(int64_t first, Sizes... sizes) : sizes_{static_cast<int>(sizes)...} {
    static_assert(sizeof...(Sizes) == kInner, "one size for each axis but the outermost");
    outer_ = first;
    outer_step_ = kStep;
    FUSEBUILD_UNROLL
    for (int axis = kInner - 1; axis >= 0; --axis) {
      const QuickDivisor size(sizes_[axis]);
      const bool is_far = outer_ >> 31 != 0;  // further than 32 bits reach
      const int64_t quotient = is_far ? outer_ / sizes_[axis] : static_cast<int>(outer_) / size;
      at_[axis] = static_cast<int>(outer_ - quotient * sizes_[axis]);
      outer_ = quotient;
      step_[axis] = outer_step_ % size;
      outer_step_ = outer_step_ / size;
    }
  }

  // The coordinate on an axis, of which the outermost is number 0.
  FUSEBUILD_DEVICE int64_t operator[](int axis) const { return axis == 0 ? outer_ : at_[axis - 1]; }

  FUSEBUILD_DEVICE void step() {
    int carried = 0;
    FUSEBUILD_UNROLL
    for (int axis = kInner - 1; axis >= 0; --axis) {
      at_[axis] += step_[axis] + carried;
      carried = at_[axis] >= sizes_[axis];
      if (carried) at_[axis] -= sizes_[axis];
    }
    outer_ += outer_step_ + carried;
  }

 private:
  int64_t outer_;
  int outer_step_, at_[kInner], step_[kInner], sizes_[kInner];
};

}  // namespace fusebuild
