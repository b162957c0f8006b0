// Matrix products in numbers: what a call asks of a library.
#pragma once

#include <cstdint>

#include "dtype.h"

namespace fusebuild {

/// What is added to the elements of a product before they are rounded: bias[n], and `beta` times the
/// residual[m, n] unless `beta` is 0.
struct Epilogue {
  bool has_bias = false;
  double beta = 0;
};

/// `count` products out[m, n] = a[m, k] b[k, n] with an epilogue, one behind the other in `out`, which has no
/// gaps, nor has the residual. `a` lies in memory as [k, m] where `transpose_a`, `b` as [n, k] where
/// `transpose_b`. Nothing but `k` is 0.
struct Product {
  DLDataType dtype;
  bool transpose_a, transpose_b;
  Epilogue epilogue;
  int64_t m, n, k, count;
  int64_t lda, ldb;        // elements from one row in memory to the next one
  int64_t a_step, b_step;  // elements from one product's matrix to the next one's; 0 where all share it
  int64_t gap = 0;  // elements between the rows of `out`, where there is one product without a residual

  int64_t out_size() const { return m * n; }
};

/// Where a product's tensors begin. `bias` and `residual` are null where there is none.
struct Operands {
  const char *a, *b, *bias, *residual;
  char* out;
};

/// `operands` of the product number `first` of those that begin there.
Operands From(const Product& product, const Operands& operands, int64_t first);

/// Computes a product on the CPU, for the host target. Each element is one sum over k, in order, in float (in
/// double for double), and is rounded once at the end.
void MultiplyOnHost(const Product& product, const Operands& operands);

}  // namespace fusebuild
