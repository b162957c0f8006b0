// A fixed-size array whose elements live on the stack when there are few: calls allocate nothing on the heap.
#pragma once

#include <cstddef>
#include <memory>

namespace fusebuild {

template <typename T, size_t kInline>
class InlineBuffer {
 public:
  /// `size` value-initialized elements.
  explicit InlineBuffer(size_t size) : size_(size) {
    if (size > kInline) heap_ = std::make_unique<T[]>(size);
    data_ = heap_ ? heap_.get() : inline_;
    for (size_t i = 0; i < size; ++i) data_[i] = T();
  }
  InlineBuffer(const InlineBuffer&) = delete;
  InlineBuffer& operator=(const InlineBuffer&) = delete;

  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  size_t size_;
  T* data_;
  std::unique_ptr<T[]> heap_;
  T inline_[kInline];
};

}  // namespace fusebuild
