// cast<To>(x) among double, float, __half, __nv_bfloat16, int64_t, int32_t and bool, with torch's semantics.

#pragma once

#include "fusebuild/vec.cuh"

namespace fusebuild {

template <typename T>
constexpr bool kIsReducedPrecision = std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>;

FUSEBUILD_DEVICE float widen(__half x) { return __half2float(x); }
// A bfloat16 is the upper half of a float. Said in integers, the compiler takes one out of a word in one
// instruction.
FUSEBUILD_DEVICE float widen(__nv_bfloat16 x) {
  const uint32_t bits = uint32_t(__bfloat16_as_ushort(x)) << 16;
  float result;
  memcpy(&result, &bits, sizeof(result));
  return result;
}

// Floating to integer truncates; to bool is x != 0, so NaN is true; to a narrower float rounds to nearest
// even. Half and bfloat16 are reached through float from every other type, double and integers included, as
// torch does it. Integers wrap when narrowed. A floating value that its integer type cannot hold is undefined
// in torch; here it saturates.
template <typename To, typename From>
FUSEBUILD_DEVICE To cast(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (kIsReducedPrecision<From>) {
    return cast<To>(widen(x));
  } else if constexpr (std::is_same_v<To, __half>) {
    return __float2half_rn(cast<float>(x));
  } else if constexpr (std::is_same_v<To, __nv_bfloat16>) {
    return __float2bfloat16_rn(cast<float>(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return truncate_to_integer<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

template <typename To>
FUSEBUILD_DEVICE auto round_pair(float first, float second) {
  if constexpr (std::is_same_v<To, __half>) {
    return __floats2half2_rn(first, second);
  } else {
    return __floats2bfloat162_rn(first, second);
  }
}

// Every value of a vector; float to bfloat16 and half in pairs, which is one instruction for two values.
template <typename To, typename From, int N>
FUSEBUILD_DEVICE Vec<To, N> cast(const Vec<From, N>& x) {
  Vec<To, N> result;
  if constexpr (kIsReducedPrecision<To> && std::is_same_v<From, float> && N > 1) {
    FUSEBUILD_UNROLL
    for (int k = 0; k < N; k += 2) {
      const auto pair = round_pair<To>(x[k], x[k + 1]);
      result[k] = pair.x;
      result[k + 1] = pair.y;
    }
  } else {
    FUSEBUILD_UNROLL
    for (int k = 0; k < N; ++k) result[k] = cast<To>(x[k]);
  }
  return result;
}

}  // namespace fusebuild
