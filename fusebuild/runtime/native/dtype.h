// The element types a plan can name, and how DLPack and C spell them.
#pragma once

#include <dlpack/dlpack.h>

#include <cstdint>
#include <string>

namespace fusebuild {

enum class DType : uint8_t { kDouble, kFloat, kHalf, kBFloat16, kInt64, kInt32, kBool };

struct DTypeInfo {
  const char* name;  // as recipes write it
  DLDataType dlpack;
  int bytes;
};

/// Name, DLPack code and size of `dtype`.
const DTypeInfo& Info(DType dtype);

/// The dtype that recipes call `name`, or null.
const DType* FindDType(const std::string& name);

/// How to name any DLPack type in a message: a recipe's word where there is one, for example "bfloat16".
std::string Describe(DLDataType dlpack);

/// "cpu", "cuda:1", ...
std::string Describe(DLDevice device);

inline bool Equal(DLDataType a, DLDataType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

inline bool IsFloating(DType dtype) {
  return dtype == DType::kDouble || dtype == DType::kFloat || dtype == DType::kHalf ||
         dtype == DType::kBFloat16;
}

/// The element of `dtype` (one of the floating ones) at `source`.
double ReadFloat(DType dtype, const void* source);

/// `value` as the bits of `dtype` (one of the floating ones), in the low bytes of the result.
uint64_t FloatBits(DType dtype, double value);

}  // namespace fusebuild
