// Division by what only the call knows: a multiplication and two shifts, where the quotient of two integers
// takes some twenty instructions.

#pragma once

#include "fusebuild/divide.cuh"
#include "fusebuild/vec.cuh"

namespace fusebuild {

// Divides integers from 0 to 2^31 - 1 by `divisor`, which is at least 1 and no larger. With 2^(shift - 1) <
// divisor
// <= 2^shift, the multiplier is what 2^(31 + shift) / divisor rounds up to, or one more: too large by less
// than a 2^31st, which no quotient shows.
class Divisor {
 public:
  FUSEBUILD_DEVICE explicit Divisor(int64_t divisor) : divisor_(static_cast<int>(divisor)) {
    shift_ = divisor > 1 ? 32 - leading_zeros(static_cast<uint32_t>(divisor - 1)) : 0;
    multiplier_ = static_cast<uint32_t>((uint64_t(1) << (31 + shift_)) / static_cast<uint64_t>(divisor) + 1);
  }

  FUSEBUILD_DEVICE friend int operator/(int number, const Divisor& by) {
    uint32_t dividend = static_cast<uint32_t>(number);
    forget_origin(dividend);  // or compilers keep the quotients of a loop's later turns in registers
    const uint64_t product = static_cast<uint64_t>(dividend) * by.multiplier_;
    return static_cast<int>(static_cast<uint32_t>(product >> 31) >> by.shift_);
  }

  FUSEBUILD_DEVICE friend int operator%(int number, const Divisor& by) {
    return number - number / by * by.divisor_;
  }

 private:
  int divisor_, shift_;
  uint32_t multiplier_;
};

// The same for integers of which none times the divisor is 2^21 or more: a multiplication and a shift of 32
// bits, and the multiplications of neighbouring integers are one and additions.
class SmallDivisor {
 public:
  FUSEBUILD_DEVICE explicit SmallDivisor(int64_t divisor)
      : multiplier_((uint32_t(1) << kShift) / static_cast<uint32_t>(divisor) + 1) {}

  FUSEBUILD_DEVICE friend int operator/(int number, const SmallDivisor& by) {
    return static_cast<int>(static_cast<uint32_t>(number) * by.multiplier_ >> kShift);
  }

 private:
  static constexpr int kShift = 21;

  uint32_t multiplier_;
};

// The same where few integers are divided: it is made in a few instructions, of 32 bits each, and divides in
// one more.
class QuickDivisor {
 public:
  FUSEBUILD_DEVICE explicit QuickDivisor(int64_t divisor)
      : divisor_(static_cast<int>(divisor)), reciprocal_(~0u / static_cast<uint32_t>(divisor)) {}

  FUSEBUILD_DEVICE friend int operator/(int number, const QuickDivisor& by) {
    return divided(number, by.divisor_, by.reciprocal_).quotient;
  }

  FUSEBUILD_DEVICE friend int operator%(int number, const QuickDivisor& by) {
    return divided(number, by.divisor_, by.reciprocal_).remainder;
  }

 private:
  int divisor_;
  uint32_t reciprocal_;
};

// Divides integers from `first` on, whatever their size: all must be less than 2^31 after the multiple of
// `divisor` that is the last up to `first`, and so is `divisor`.
class NearDivisor {
 public:
  FUSEBUILD_DEVICE NearDivisor(int64_t first, int64_t divisor)
      : quotient_(first / divisor), origin_(quotient_ * divisor), divisor_(divisor) {}

  FUSEBUILD_DEVICE friend int64_t operator/(int64_t number, const NearDivisor& by) {
    return by.quotient_ + static_cast<int>(number - by.origin_) / by.divisor_;
  }

  FUSEBUILD_DEVICE friend int64_t operator%(int64_t number, const NearDivisor& by) {
    return static_cast<int>(number - by.origin_) % by.divisor_;
  }

 private:
  int64_t quotient_, origin_;
  QuickDivisor divisor_;
};

}  // namespace fusebuild
