// Values whose memory may not be there. Nothing throws in a kernel's library: no exception may leave a fiber,
// or reach the executor's C++ runtime. It needs no such runtime itself, so that it links sooner.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

namespace fusebuild::host {

// A new T made of `arguments`; null where there is no memory for it.
template <typename T, typename... Arguments>
T* make(Arguments&&... arguments) {
  static_assert(alignof(T) <= alignof(std::max_align_t), "malloc aligns for no more");
  void* memory = std::malloc(sizeof(T));
  return memory == nullptr ? nullptr : new (memory) T{std::forward<Arguments>(arguments)...};
}

// Ends what make() gave.
template <typename T>
void destroy(T* value) {
  if (value == nullptr) return;
  value->~T();
  std::free(value);
}

// An array whose size is known at run time: as many values as it is made with, for as long as it is there; or
// none, where there is no memory for them. The standard containers would take longer to compile than kernels.
template <typename T>
class Array {
 public:
  explicit Array(int64_t count)
      : count_(static_cast<size_t>(count)),
        values_(static_cast<T*>(std::malloc(count_ == 0 ? 1 : count_ * sizeof(T)))) {
    static_assert(alignof(T) <= alignof(std::max_align_t), "malloc aligns for no more");
    for (size_t index = 0; has_memory() && index < count_; ++index) new (values_ + index) T;
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() {
    for (size_t index = 0; has_memory() && index < count_; ++index) values_[index].~T();
    std::free(values_);
  }

  bool has_memory() const { return values_ != nullptr; }
  T& operator[](int index) { return values_[index]; }
  const T& operator[](int index) const { return values_[index]; }
  T* data() { return values_; }

 private:
  const size_t count_;
  T* const values_;
};

}  // namespace fusebuild::host
