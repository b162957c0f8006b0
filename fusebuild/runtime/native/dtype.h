// The element types of values: DLPack's, and what plans call them.
#pragma once

#include <dlpack/dlpack.h>

#include <cstdint>
#include <optional>
#include <string>

namespace fusebuild {

inline constexpr DLDataType kDouble{kDLFloat, 64, 1}, kFloat{kDLFloat, 32, 1}, kHalf{kDLFloat, 16, 1},
    kBFloat16{kDLBfloat, 16, 1};

/// The element type that plans call `name`, if there is one of whole bytes. Plans have DLPack's names, for
/// example "int32", but C's words "double", "float" and "half".
std::optional<DLDataType> FindDType(const std::string& name);

/// What plans call `dtype`, also for messages about types that no plan has.
std::string Describe(DLDataType dtype);

/// "cpu", "cuda:1", ...
std::string Describe(DLDevice device);

inline bool Equal(DLDataType a, DLDataType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

inline int Bytes(DLDataType dtype) { return dtype.bits / 8; }

/// Whether `dtype` is one of the floating types above, which the executor can read and write on the CPU.
inline bool IsFloating(DLDataType dtype) {
  return Equal(dtype, kDouble) || Equal(dtype, kFloat) || Equal(dtype, kHalf) || Equal(dtype, kBFloat16);
}

/// The element of `dtype` (one of the floating ones) at `source`.
double ReadFloat(DLDataType dtype, const void* source);

/// `value` as the bits of `dtype` (one of the floating ones), in the low bytes of the result.
uint64_t FloatBits(DLDataType dtype, double value);

}  // namespace fusebuild
