// Matrix products in numbers: what a call asks of a library.
#pragma once

#include <cstdint>

#include "dtype.h"

namespace fusebuild {

/// `count` products out[m, n] = a[m, k] b[k, n] + bias[n], one behind the other in `out`. Matrices are
/// row-major without gaps; `b` lies in memory as [n, k] where `transpose_b`. Nothing but `k` is 0.
struct Product {
  DLDataType dtype;
  bool transpose_b, has_bias;
  int64_t m, n, k, count;
  int64_t a_step, b_step;  // elements from one product's matrix to the next one's; 0 where all share it

  int64_t a_size() const { return m * k; }
  int64_t b_size() const { return k * n; }
  int64_t out_size() const { return m * n; }
};

/// Where a product's tensors begin. `bias` is null where there is none.
struct Operands {
  const char *a, *b, *bias;
  char* out;
};

/// Computes a product on the CPU, for the host target. Each element is one sum over k, in order, in float (in
/// double for double), and is rounded once at the end.
void MultiplyOnHost(const Product& product, const Operands& operands);

}  // namespace fusebuild
