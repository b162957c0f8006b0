// The CUDA math functions that the C library lacks.

#pragma once

#include <cmath>
#include <limits>

namespace fusebuild::host {

// x with erfc(x) == y, for 0 < y <= 1. A rational approximation, then Newton's method on log(erfc(x)), which
// stays relatively exact however small y is.
inline double erfcinv_of_small(double y) {
  constexpr double kHalfRootPi = 0.88622692545275801365;
  constexpr double kLargest = 26.5;  // beyond it erfc(x) leaves the normal numbers
  double x;
  if (y > 0.3) {
    const double t = 1 - y, z = t * t;
    x = t * (((-0.140543331 * z + 0.914624893) * z - 1.645349621) * z + 0.886226899) /
        ((((0.012229801 * z - 0.329097515) * z + 1.442710462) * z - 2.118377725) * z + 1);
  } else {
    const double z = std::sqrt(-std::log(y / 2));
    x = (((1.641345311 * z + 3.429567803) * z - 1.624906493) * z - 1.970840454) /
        ((1.637067800 * z + 3.543889200) * z + 1);
    x = std::fmin(x, kLargest);
  }
  for (int step = 0; step < 4; ++step) {
    const double value = std::erfc(x);
    // erfc(x) over its derivative's magnitude; its asymptotic series where exp(x * x) would overflow.
    const double scale = x < 20 ? value * std::exp(x * x) * kHalfRootPi : 0.5 / x * (1 - 0.5 / (x * x));
    x += scale * std::log(value / y);
  }
  return x;
}

inline double erfcinv(double y) {
  if (!(y >= 0 && y <= 2)) return std::numeric_limits<double>::quiet_NaN();
  if (y == 0) return std::numeric_limits<double>::infinity();
  if (y == 2) return -std::numeric_limits<double>::infinity();
  return y <= 1 ? erfcinv_of_small(y) : -erfcinv_of_small(2 - y);
}

// Near 0, 1 - x would lose digits: there Newton's method runs on erf itself.
inline double erfinv(double x) {
  constexpr double kHalfRootPi = 0.88622692545275801365;
  if (std::fabs(x) > 0.5) return x > 0 ? erfcinv(1 - x) : -erfcinv(1 + x);
  double y = x * kHalfRootPi * (1 + x * x * (0.2617993878 + x * x * 0.1439317308));
  for (int step = 0; step < 4; ++step) y -= (std::erf(y) - x) * kHalfRootPi * std::exp(y * y);
  return y;
}

// lgamma() writes a global, lgamma_r() does not.
inline float log_gamma(float x) {
  int sign;
  return ::lgammaf_r(x, &sign);
}
inline double log_gamma(double x) {
  int sign;
  return ::lgamma_r(x, &sign);
}

}  // namespace fusebuild::host
