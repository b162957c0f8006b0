// Every function of math.cuh as a kernel of its own: OP_DTYPE(inputs..., out, n).

#include <fusebuild/kernel.cuh>

namespace fusebuild {

// The ops whose operands are not all of one type, as functions of three values of one type.
template <typename T>
FUSEBUILD_DEVICE T where_positive(T condition, T a, T b) {
  return where(condition > T(0), a, b);
}
template <typename T>
FUSEBUILD_DEVICE T addcmul_of_two(T x, T a, T b) {
  return addcmul(x, a, b, T(2));
}

}  // namespace fusebuild

#define UNARY(name, T, dtype, Result)                                                                     \
  FUSEBUILD_KERNEL(128, 1) name##_##dtype(const T* __restrict__ x, Result* __restrict__ out, int64_t n) { \
    const int64_t i = int64_t(fb::block_x()) * 128 + fb::thread_x();                                      \
    if (i < n) out[i] = fb::name(x[i]);                                                                   \
  }                                                                                                       \
  FUSEBUILD_ENTRY(name##_##dtype)

#define BINARY(name, T, dtype)                                                                       \
  FUSEBUILD_KERNEL(128, 1)                                                                           \
  name##_##dtype(const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ out, int64_t n) { \
    const int64_t i = int64_t(fb::block_x()) * 128 + fb::thread_x();                                 \
    if (i < n) out[i] = fb::name(a[i], b[i]);                                                        \
  }                                                                                                  \
  FUSEBUILD_ENTRY(name##_##dtype)

#define TERNARY(name, T, dtype)                                                             \
  FUSEBUILD_KERNEL(128, 1)                                                                  \
  name##_##dtype(const T* __restrict__ a, const T* __restrict__ b, const T* __restrict__ c, \
                 T* __restrict__ out, int64_t n) {                                          \
    const int64_t i = int64_t(fb::block_x()) * 128 + fb::thread_x();                        \
    if (i < n) out[i] = fb::name(a[i], b[i], c[i]);                                         \
  }                                                                                         \
  FUSEBUILD_ENTRY(name##_##dtype)

#define FLOAT_UNARY(name) UNARY(name, float, float, float) UNARY(name, double, double, double)
#define FLOAT_TEST(name) UNARY(name, float, float, bool) UNARY(name, double, double, bool)
#define FLOAT_BINARY(name) BINARY(name, float, float) BINARY(name, double, double)
#define INT_UNARY(name) UNARY(name, int32_t, int32, int32_t) UNARY(name, int64_t, int64, int64_t)
#define INT_BINARY(name) BINARY(name, int32_t, int32) BINARY(name, int64_t, int64)

FLOAT_UNARY(abs)
FLOAT_UNARY(acos)
FLOAT_UNARY(acosh)
FLOAT_UNARY(asin)
FLOAT_UNARY(asinh)
FLOAT_UNARY(atan)
FLOAT_UNARY(atanh)
FLOAT_UNARY(ceil)
FLOAT_UNARY(cos)
FLOAT_UNARY(cosh)
FLOAT_UNARY(erf)
FLOAT_UNARY(erfc)
FLOAT_UNARY(erfcinv)
FLOAT_UNARY(erfinv)
FLOAT_UNARY(exp)
FLOAT_UNARY(exp2)
FLOAT_UNARY(expm1)
FLOAT_UNARY(floor)
FLOAT_UNARY(frac)
FLOAT_UNARY(lgamma)
FLOAT_UNARY(log)
FLOAT_UNARY(log10)
FLOAT_UNARY(log1p)
FLOAT_UNARY(log2)
FLOAT_UNARY(neg)
FLOAT_UNARY(reciprocal)
FLOAT_UNARY(reciprocal_of_at_least_one)
FLOAT_UNARY(relu)
FLOAT_UNARY(round)
FLOAT_UNARY(rsqrt)
FLOAT_UNARY(sigmoid)
FLOAT_UNARY(sign)
FLOAT_UNARY(silu)
FLOAT_UNARY(sin)
FLOAT_UNARY(sinh)
FLOAT_UNARY(sqrt)
FLOAT_UNARY(tan)
FLOAT_UNARY(tanh)
FLOAT_UNARY(trunc)
FLOAT_TEST(isfinite)
FLOAT_TEST(isinf)
FLOAT_TEST(isnan)
FLOAT_TEST(isneginf)
FLOAT_TEST(isposinf)
FLOAT_TEST(isreal)
FLOAT_TEST(signbit)
FLOAT_BINARY(add)
FLOAT_BINARY(atan2)
FLOAT_BINARY(div)
BINARY(divide_by_known, float, float)
BINARY(divide_by_one_to_two, float, float)
FLOAT_BINARY(fmod)
FLOAT_BINARY(maximum)
FLOAT_BINARY(minimum)
FLOAT_BINARY(mod)
FLOAT_BINARY(mul)
FLOAT_BINARY(nextafter)
FLOAT_BINARY(pow)
FLOAT_BINARY(remainder)
FLOAT_BINARY(sub)

INT_UNARY(abs)
INT_UNARY(bitwise_not)
INT_UNARY(neg)
INT_UNARY(relu)
INT_UNARY(sign)
INT_BINARY(add)
INT_BINARY(bitwise_and)
INT_BINARY(bitwise_left_shift)
INT_BINARY(bitwise_or)
INT_BINARY(bitwise_right_shift)
INT_BINARY(bitwise_xor)
INT_BINARY(div)
INT_BINARY(fmod)
INT_BINARY(gcd)
INT_BINARY(logical_right_shift)
INT_BINARY(maximum)
INT_BINARY(minimum)
INT_BINARY(mod)
INT_BINARY(mul)
INT_BINARY(pow)
INT_BINARY(remainder)
INT_BINARY(sub)

UNARY(bitwise_not, bool, bool, bool)
BINARY(bitwise_and, bool, bool)
BINARY(bitwise_or, bool, bool)
BINARY(bitwise_xor, bool, bool)
BINARY(maximum, bool, bool)
BINARY(minimum, bool, bool)

TERNARY(addcmul_of_two, float, float)
TERNARY(addcmul_of_two, double, double)
TERNARY(addcmul_of_two, int32_t, int32)
TERNARY(addcmul_of_two, int64_t, int64)
TERNARY(clamp, float, float)
TERNARY(clamp, double, double)
TERNARY(clamp, int32_t, int32)
TERNARY(clamp, int64_t, int64)
TERNARY(lerp, float, float)
TERNARY(lerp, double, double)
TERNARY(threshold, float, float)
TERNARY(threshold, double, double)
TERNARY(threshold, int32_t, int32)
TERNARY(threshold, int64_t, int64)
TERNARY(where_positive, float, float)
TERNARY(where_positive, double, double)
TERNARY(where_positive, int32_t, int32)
TERNARY(where_positive, int64_t, int64)
