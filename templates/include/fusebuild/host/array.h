// An array whose size is known at run time. The standard containers would take longer to compile than kernels
// do.

#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

namespace fusebuild::host {

// As many values as it is made with, for as long as it is there; or none, where there is no memory for them.
// Nothing throws in a kernel's library: no exception may leave a fiber, or reach the executor's C++ runtime.
template <typename T>
class Array {
 public:
  explicit Array(int64_t count) : values_(new (std::nothrow) T[static_cast<size_t>(count)]) {}
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() { delete[] values_; }

  bool has_memory() const { return values_ != nullptr; }
  T& operator[](int index) { return values_[index]; }
  const T& operator[](int index) const { return values_[index]; }
  T* data() { return values_; }

 private:
  T* const values_;
};

}  // namespace fusebuild::host
