// Products of matrices with odd rows: copies whose rows begin at multiples of 16 bytes, where that is faster.
#pragma once

#include <cstdint>
#include <string>

#include "product.h"

namespace fusebuild {

/// A copy of a matrix of half or bfloat16 whose rows begin at multiples of 16 bytes; nothing where `ld` is 0.
struct EvenCopy {
  int64_t rows = 0, columns = 0, from_ld = 0, ld = 0;

  /// What the copy takes, with rows of its own up to a multiple of 8: a multiple of 256.
  int64_t bytes() const;
};

/// `given` as the library multiplies it: all sizes in memory multiples of 8 elements, with zeros behind the
/// end of each row and column, since it has fast algorithms for no others. On an H100 the product of
/// bfloat16[16515, 409] and [1653, 409] takes 251 us, and 52 of even copies; the copies take 110 (CUDA 13.0).
///
/// A product is left as it is, and `bytes` is 0, in a batch, in float and double, and with a residual, and
/// where copies would take longer than they save.
struct EvenProduct {
  /// Copies of all that is odd, wherever there may be some.
  explicit EvenProduct(const Product& given);

  /// Those that save time.
  static EvenProduct Of(const Product& given);

  Product product;
  EvenCopy a, b, out;
  int64_t bytes() const { return a.bytes() + b.bytes() + out.bytes(); }

  /// The operands of `product`, whose copies begin at `scratch`; of those that are `given`.
  Operands Within(const Operands& given, char* scratch) const;

  /// Enqueues the copies of the operands `from`, of which `to` are those of `product`.
  void CopyIn(const Operands& from, const Operands& to, void* stream, const std::string& what) const;

  /// Enqueues the copy of the result that `from` has to where `to` wants it.
  void CopyOut(const Operands& from, const Operands& to, void* stream, const std::string& what) const;
};

}  // namespace fusebuild
