// Checking a call's arguments against the plan and reading from them what the launches need.
#pragma once

#include <tvm/ffi/any.h>

#include "inline_buffer.h"
#include "plan.h"

namespace fusebuild {

/// The arguments of one call after checking.
struct Bound {
  explicit Bound(const Plan& plan);

  /// The environment that formulas are evaluated in: the sizes and alignment answers inside `key`, and what
  /// is `known` of them.
  Environment environment(Known* known = nullptr) const {
    return {key.data(), reinterpret_cast<const uint64_t*>(key.data() + aligned_begin), known};
  }
  bool IsAligned(size_t question) const {
    return environment().aligned[question / 64] >> (question % 64) & 1;
  }
  void SetAligned(size_t question, bool aligned);

  InlineBuffer<const DLTensor*, 16> tensors;  // per input; null for scalars
  InlineBuffer<uint64_t, 16> scalars;         // per input: the bits of its dtype, low bytes first
  InlineBuffer<char*, 32> addresses;          // as Plan says; owned tensors and slots are filled in later
  /// What variants, grids and sizes depend on: symbol sizes, free strides, then the alignment answers.
  InlineBuffer<int64_t, 32> key;
  size_t aligned_begin;
  DLDevice device;
  int device_from = -1;  // the input that decided `device`, -1 for none
};

/// "float[7, 4096]".
std::string Describe(const DLTensor& tensor);

/// The first byte of a tensor's first element.
inline char* Address(const DLTensor& tensor) { return static_cast<char*>(tensor.data) + tensor.byte_offset; }

/// Whether `address` is a multiple of `bytes`. (Dividing takes a call longer than all else that it checks.)
inline bool IsAligned(const char* address, int64_t bytes) {
  const uintptr_t number = reinterpret_cast<uintptr_t>(address), divisor = static_cast<uintptr_t>(bytes);
  return (divisor & (divisor - 1)) == 0 ? (number & (divisor - 1)) == 0 : number % divisor == 0;
}

/// The bytes [first, last) that a tensor's elements lie in; both are equal for an empty tensor.
struct ByteRange {
  const char *first, *last;
  bool Overlaps(const ByteRange& other) const { return first < other.last && other.first < last; }
};

ByteRange Range(const DLTensor& tensor);

/// Whether two tensors are known to share no element: their ranges do not overlap, or they lie between each
/// other as slices of one tensor do.
bool AreApart(const DLTensor& a, const DLTensor& b);

/// Whether elements of a tensor are known to share a place. As with torch, some layouts of three dims or more
/// are not seen through.
bool OverlapsItself(const DLTensor& tensor);

/// What is wrong with the address of a tensor of elements of `bytes`; empty when nothing is.
std::string AddressProblem(const DLTensor& tensor, int64_t bytes);

/// The tensor in `argument`, or null for anything else.
const DLTensor* AsTensor(tvm::ffi::AnyView argument);

/// What `argument` is, for messages: "float[3]", "int 3", "None", ...
std::string DescribeArgument(tvm::ffi::AnyView argument);

/// True when each stride is as expected, or does not matter because the dim has one element or the tensor
/// none.
bool StridesMatch(const DLTensor& tensor, const int64_t* expected);

/// Whether both are the same elements, in the same order.
bool IsSameTensor(const DLTensor& a, const DLTensor& b);

/// "(4096, 1)".
std::string ShowList(const int64_t* items, size_t size);

/// Binds `arguments` (one per input of `plan`) into `bound`. `device_type` is where tensors must be.
/// Throws TypeError for a wrong kind, dtype or count and ValueError for a wrong shape, stride, device or
/// size.
void Bind(const Plan& plan, const tvm::ffi::AnyView* arguments, int num_arguments, DLDeviceType device_type,
          Bound* bound);

}  // namespace fusebuild
