// The sum of numbers that come in any order: the same bits for each order, and as exact as if it were rounded
// once.
//
// All are looked at first, then added as integers: multiples of one power of two, which the largest of them
// and their count say, so that no sum overflows. Where the count has c bits, each is added as a number within
// 2^-(62 - c) of the largest one's size of it; a double, which two integers hold, within 2^-(124 - 2 * c).

#pragma once

#include "fusebuild/math.cuh"

namespace fusebuild {

// The bits that a count has: it is less than 2 to the power of so many.
FUSEBUILD_DEVICE int bits_of(int64_t count) {
  int bits = 0;
  for (; count > 0; count >>= 1) ++bits;
  return bits;
}

template <typename T>
struct ExactSum {
  static constexpr bool kIsDouble = sizeof(T) == sizeof(double);

  T largest = 0;       // of the finite ones, without its sign
  T special = 0;       // the sum of those that are not finite
  int exponent = 0;    // the upper integer counts multiples of 2^-exponent
  int lower_bits = 0;  // the lower one those of 2^-(exponent + lower_bits)
  double factor = 1;   // 2^exponent, where that is in the range of doubles
  int64_t upper = 0;
  int64_t lower = 0;

  FUSEBUILD_DEVICE void look(T x) {
    if (isfinite(x))
      largest = abs(x) > largest ? abs(x) : largest;
    else
      special += x;
  }

  // After all were looked at, and before the first is added; their count has so many bits.
  FUSEBUILD_DEVICE void scale(int bits) {
    lower_bits = 62 - bits;
    exponent = largest > 0 ? lower_bits - 1 - ::ilogb(static_cast<double>(largest)) : 0;
    if constexpr (!kIsDouble) factor = ::scalbn(1.0, exponent);
  }

  FUSEBUILD_DEVICE void add(T x) {
    if (!isfinite(x)) return;
    if constexpr (kIsDouble) {
      const double scaled = ::scalbn(x, exponent);
      const int64_t whole = ::llrint(scaled);
      upper += whole;
      lower += ::llrint(::scalbn(scaled - static_cast<double>(whole), lower_bits));
    } else {
      upper += ::llrint(static_cast<double>(x) * factor);
    }
  }

  // `base` and all that was added.
  FUSEBUILD_DEVICE T total(T base) const {
    if (!isfinite(special)) return base + (isnan(special) ? T(NAN) : special);
    double sum = static_cast<double>(upper);
    if constexpr (kIsDouble) {
      const auto rest = static_cast<double>(upper - static_cast<int64_t>(sum));
      sum += rest + ::scalbn(static_cast<double>(lower), -lower_bits);
    }
    return static_cast<T>(static_cast<double>(base) + ::scalbn(sum, -exponent));
  }
};

// Integers wrap, and their order makes no difference.
template <typename Integer>
struct WrappingSum {
  Integer sum = 0;

  FUSEBUILD_DEVICE void add(Integer x) { sum = fusebuild::add(sum, x); }
  FUSEBUILD_DEVICE Integer total(Integer base) const { return fusebuild::add(base, sum); }
};
template <>
struct ExactSum<int32_t> : WrappingSum<int32_t> {};
template <>
struct ExactSum<int64_t> : WrappingSum<int64_t> {};

}  // namespace fusebuild
