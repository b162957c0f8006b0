// One function per pointwise op that is not a plain C operator, named as the op, with torch's semantics: NaN
// propagates, rounding is half to even, integers wrap. No fast-math: float versions are the accurate ones.
//
// Where torch raises an error or leaves a result undefined, these return a value instead of trapping:
// dividing an integer by zero gives 0, and so does its remainder.

#pragma once

#include "fusebuild/access.cuh"

namespace fusebuild {

template <typename T>
constexpr bool kIsFloating = std::is_floating_point_v<T>;
template <typename T>
constexpr bool kIsBool = std::is_same_v<T, bool>;
template <typename T>
constexpr T kInfinity = std::numeric_limits<T>::infinity();
template <typename T>
constexpr T kLowest = kIsFloating<T> ? -kInfinity<T> : std::numeric_limits<T>::lowest();
template <typename T>
constexpr T kHighest = kIsFloating<T> ? kInfinity<T> : std::numeric_limits<T>::max();
template <typename T>
constexpr int kBits = 8 * sizeof(T);

// --- Elementary functions, as the C library has them

#define FUSEBUILD_LIBRARY_FUNCTION(name)                        \
  FUSEBUILD_DEVICE float name(float x) { return ::name##f(x); } \
  FUSEBUILD_DEVICE double name(double x) { return ::name(x); }

FUSEBUILD_LIBRARY_FUNCTION(acos)
FUSEBUILD_LIBRARY_FUNCTION(acosh)
FUSEBUILD_LIBRARY_FUNCTION(asin)
FUSEBUILD_LIBRARY_FUNCTION(asinh)
FUSEBUILD_LIBRARY_FUNCTION(atan)
FUSEBUILD_LIBRARY_FUNCTION(atanh)
FUSEBUILD_LIBRARY_FUNCTION(ceil)
FUSEBUILD_LIBRARY_FUNCTION(cos)
FUSEBUILD_LIBRARY_FUNCTION(cosh)
FUSEBUILD_LIBRARY_FUNCTION(erf)
FUSEBUILD_LIBRARY_FUNCTION(erfc)
FUSEBUILD_LIBRARY_FUNCTION(exp)
FUSEBUILD_LIBRARY_FUNCTION(exp2)
FUSEBUILD_LIBRARY_FUNCTION(expm1)
FUSEBUILD_LIBRARY_FUNCTION(floor)
FUSEBUILD_LIBRARY_FUNCTION(log)
FUSEBUILD_LIBRARY_FUNCTION(log10)
FUSEBUILD_LIBRARY_FUNCTION(log1p)
FUSEBUILD_LIBRARY_FUNCTION(log2)
FUSEBUILD_LIBRARY_FUNCTION(sin)
FUSEBUILD_LIBRARY_FUNCTION(sinh)
FUSEBUILD_LIBRARY_FUNCTION(sqrt)
FUSEBUILD_LIBRARY_FUNCTION(tan)
FUSEBUILD_LIBRARY_FUNCTION(tanh)
FUSEBUILD_LIBRARY_FUNCTION(trunc)
#undef FUSEBUILD_LIBRARY_FUNCTION

FUSEBUILD_DEVICE float round(float x) { return ::rintf(x); }  // half to even
FUSEBUILD_DEVICE double round(double x) { return ::rint(x); }
FUSEBUILD_DEVICE float atan2(float y, float x) { return ::atan2f(y, x); }
FUSEBUILD_DEVICE double atan2(double y, double x) { return ::atan2(y, x); }
FUSEBUILD_DEVICE float nextafter(float from, float to) { return ::nextafterf(from, to); }
FUSEBUILD_DEVICE double nextafter(double from, double to) { return ::nextafter(from, to); }
FUSEBUILD_DEVICE bool signbit(float x) { return ::copysignf(1.0f, x) < 0; }
FUSEBUILD_DEVICE bool signbit(double x) { return ::copysign(1.0, x) < 0; }

// rsqrt, erfinv, erfcinv and lgamma come from the platform layer.

// --- Integer arithmetic that wraps; on floating types these are the plain operators

template <typename T>
using Unsigned = std::make_unsigned_t<T>;

template <typename T>
FUSEBUILD_DEVICE T add(T a, T b) {
  if constexpr (kIsFloating<T>) {
    return a + b;
  } else {
    return static_cast<T>(static_cast<Unsigned<T>>(a) + static_cast<Unsigned<T>>(b));
  }
}

template <typename T>
FUSEBUILD_DEVICE T sub(T a, T b) {
  if constexpr (kIsFloating<T>) {
    return a - b;
  } else {
    return static_cast<T>(static_cast<Unsigned<T>>(a) - static_cast<Unsigned<T>>(b));
  }
}

template <typename T>
FUSEBUILD_DEVICE T mul(T a, T b) {
  if constexpr (kIsFloating<T>) {
    return a * b;
  } else {
    return static_cast<T>(static_cast<Unsigned<T>>(a) * static_cast<Unsigned<T>>(b));
  }
}

template <typename T>
FUSEBUILD_DEVICE T neg(T x) {
  if constexpr (kIsFloating<T>) {
    return -x;
  } else {
    return sub(T(0), x);
  }
}

FUSEBUILD_DEVICE float abs(float x) { return ::fabsf(x); }
FUSEBUILD_DEVICE double abs(double x) { return ::fabs(x); }
template <typename T>
FUSEBUILD_DEVICE T abs(T x) {
  return x < 0 ? neg(x) : x;
}

// Integers toward zero. The most negative integer divided by -1 wraps to itself.
template <typename T>
FUSEBUILD_DEVICE T div(T a, T b) {
  if constexpr (kIsFloating<T>) {
    return a / b;
  } else {
    return b == 0 ? T(0) : b == -1 ? neg(a) : static_cast<T>(a / b);
  }
}

// x / divisor, to the bit where that is a normal number, without the branch and the call that a division has:
// for a divisor that is a constant when a kernel is compiled, whose reciprocal is one then.
FUSEBUILD_DEVICE float divide_by_known(float x, float divisor) {
  const float reciprocal = 1.0f / divisor;
  const float quotient = x * reciprocal;
  const float rest = ::fmaf(-divisor, quotient, x);
  return ::fabsf(rest) > 0.0f ? ::fmaf(rest, reciprocal, quotient) : quotient;  // NaN of infinity
}

FUSEBUILD_DEVICE float fmod(float a, float b) { return ::fmodf(a, b); }
FUSEBUILD_DEVICE double fmod(double a, double b) { return ::fmod(a, b); }

// What is left of truncating division; it has the sign of `a`.
template <typename T>
FUSEBUILD_DEVICE T fmod(T a, T b) {
  return b == 0 || b == -1 ? T(0) : static_cast<T>(a % b);
}
template <typename T>
FUSEBUILD_DEVICE T mod(T a, T b) {
  return fmod(a, b);
}

// What is left of flooring division, as in Python; it has the sign of `b`.
template <typename T>
FUSEBUILD_DEVICE T remainder(T a, T b) {
  const T rest = fmod(a, b);
  return rest != T(0) && (rest < T(0)) != (b < T(0)) ? add(rest, b) : rest;
}

FUSEBUILD_DEVICE float pow(float base, float exponent) { return ::powf(base, exponent); }
FUSEBUILD_DEVICE double pow(double base, double exponent) { return ::pow(base, exponent); }

// A negative exponent gives the integer part of the exact result: 0 unless the base is 1 or -1.
template <typename T>
FUSEBUILD_DEVICE T pow(T base, T exponent) {
  if (exponent < 0) return base == 1 ? T(1) : base != -1 ? T(0) : exponent % 2 == 0 ? T(1) : T(-1);
  T result = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) result = mul(result, base);
    base = mul(base, base);
  }
  return result;
}

// Never negative, but for the one value whose magnitude its type cannot hold.
template <typename T>
FUSEBUILD_DEVICE T gcd(T a, T b) {
  Unsigned<T> x = static_cast<Unsigned<T>>(abs(a));
  Unsigned<T> y = static_cast<Unsigned<T>>(abs(b));
  while (y != 0) {
    const Unsigned<T> rest = x % y;
    x = y;
    y = rest;
  }
  return static_cast<T>(x);
}

// --- Bits

template <typename T>
FUSEBUILD_DEVICE T bitwise_and(T a, T b) {
  return static_cast<T>(a & b);
}
template <typename T>
FUSEBUILD_DEVICE T bitwise_or(T a, T b) {
  return static_cast<T>(a | b);
}
template <typename T>
FUSEBUILD_DEVICE T bitwise_xor(T a, T b) {
  return static_cast<T>(a ^ b);
}
template <typename T>
FUSEBUILD_DEVICE T bitwise_not(T x) {
  if constexpr (kIsBool<T>) {
    return !x;
  } else {
    return static_cast<T>(~x);
  }
}

// A negative amount, or one not below the width, shifts everything out; arithmetic shifts leave the sign.
template <typename T>
FUSEBUILD_DEVICE bool shifts_everything_out(T amount) {
  return amount < 0 || amount >= kBits<T>;
}
template <typename T>
FUSEBUILD_DEVICE T bitwise_left_shift(T x, T amount) {
  return shifts_everything_out(amount) ? T(0) : static_cast<T>(static_cast<Unsigned<T>>(x) << amount);
}
template <typename T>
FUSEBUILD_DEVICE T bitwise_right_shift(T x, T amount) {
  return x >> (shifts_everything_out(amount) ? T(kBits<T> - 1) : amount);
}
template <typename T>
FUSEBUILD_DEVICE T logical_right_shift(T x, T amount) {
  return shifts_everything_out(amount) ? T(0) : static_cast<T>(static_cast<Unsigned<T>>(x) >> amount);
}

// --- Tests

template <typename T>
FUSEBUILD_DEVICE bool isnan(T x) {
  return x != x;
}
template <typename T>
FUSEBUILD_DEVICE bool isinf(T x) {
  return abs(x) == kInfinity<T>;
}
template <typename T>
FUSEBUILD_DEVICE bool isfinite(T x) {
  return abs(x) < kInfinity<T>;
}
template <typename T>
FUSEBUILD_DEVICE bool isposinf(T x) {
  return x == kInfinity<T>;
}
template <typename T>
FUSEBUILD_DEVICE bool isneginf(T x) {
  return x == -kInfinity<T>;
}
template <typename T>
FUSEBUILD_DEVICE bool isreal(T) {
  return true;
}

// --- Choosing. NaN wins over every number and +0 is above -0, whichever operand comes first.

FUSEBUILD_DEVICE float maximum(float a, float b) { return max_or_nan(a, b); }
FUSEBUILD_DEVICE float minimum(float a, float b) { return min_or_nan(a, b); }

template <typename T>
FUSEBUILD_DEVICE T maximum(T a, T b) {
  if constexpr (kIsBool<T>) return a || b;
  if constexpr (kIsFloating<T>) {
    if (isnan(a) || isnan(b)) return a + b;
    if (a == b) return signbit(a) ? b : a;
  }
  return a > b ? a : b;
}

template <typename T>
FUSEBUILD_DEVICE T minimum(T a, T b) {
  if constexpr (kIsBool<T>) return a && b;
  if constexpr (kIsFloating<T>) {
    if (isnan(a) || isnan(b)) return a + b;
    if (a == b) return signbit(a) ? a : b;
  }
  return a < b ? a : b;
}

template <typename T>
FUSEBUILD_DEVICE T where(bool condition, T a, T b) {
  return condition ? a : b;
}

// `high` where low > high, as torch.
template <typename T>
FUSEBUILD_DEVICE T clamp(T x, T low, T high) {
  return minimum(maximum(x, low), high);
}

template <typename T>
FUSEBUILD_DEVICE T threshold(T x, T limit, T value) {
  return x <= limit ? value : x;
}

template <typename T>
FUSEBUILD_DEVICE T relu(T x) {
  return maximum(x, T(0));
}

template <typename T>
FUSEBUILD_DEVICE T sign(T x) {
  return T(T(0) < x) - T(x < T(0));  // 0 for NaN, as torch
}

// --- Formulas

template <typename T>
FUSEBUILD_DEVICE T reciprocal(T x) {
  return T(1) / x;
}

// The same of an x that is 1 at least, or NaN, and far from the largest float: there an approximation is off
// by a unit in the last place, and one instruction.
FUSEBUILD_DEVICE float reciprocal_of_at_least_one(float x) { return approximate_reciprocal(x); }
FUSEBUILD_DEVICE double reciprocal_of_at_least_one(double x) { return reciprocal(x); }

template <typename T>
FUSEBUILD_DEVICE T frac(T x) {
  return x - trunc(x);
}

// x / divisor, to the bit where that is a normal number, for a divisor from 1 to 2: a division without a
// branch, so that compilers compute neighbours at the same time.
FUSEBUILD_DEVICE float divide_by_one_to_two(float x, float divisor) {
  const float approximate = approximate_reciprocal(divisor);
  const float reciprocal = ::fmaf(::fmaf(-divisor, approximate, 1.0f), approximate, approximate);
  const float quotient = x * reciprocal;
  const float rest = ::fmaf(-divisor, quotient, x);
  return ::fmaf(::fabsf(rest) > 0.0f ? rest : -0.0f, reciprocal, quotient);  // NaN of infinity; of 0 its sign
}
FUSEBUILD_DEVICE double divide_by_one_to_two(double x, double divisor) { return x / divisor; }

// Both divide by 1 + exp(-|x|), which is never large.
template <typename T>
FUSEBUILD_DEVICE T sigmoid(T x) {
  const T power = exp(-abs(x));
  return divide_by_one_to_two(x < 0 ? power : T(1), T(1) + power);
}

template <typename T>
FUSEBUILD_DEVICE T silu(T x) {
  const T power = exp(-abs(x));
  return divide_by_one_to_two(x < 0 ? x * power : x, T(1) + power);
}

// From the nearer end, so that weight 1 gives `end` exactly.
template <typename T>
FUSEBUILD_DEVICE T lerp(T start, T end, T weight) {
  return abs(weight) < T(0.5) ? start + weight * (end - start) : end - (end - start) * (T(1) - weight);
}

template <typename T>
FUSEBUILD_DEVICE T addcmul(T x, T a, T b, T value) {
  return add(x, mul(mul(value, a), b));
}

// The index itself, or the nearest one of a dim with `size` elements: what an index tensor says never leads
// outside.
FUSEBUILD_DEVICE int64_t inside(int64_t index, int64_t size) {
  return index < 0 || size == 0 ? 0 : index < size ? index : size - 1;
}

}  // namespace fusebuild
