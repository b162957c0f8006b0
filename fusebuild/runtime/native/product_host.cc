#include <cstring>
#include <vector>

#include "product.h"

namespace fusebuild {
namespace {

/// `count` elements of `dtype` as `Sum`s, which hold them exactly.
template <typename Sum>
std::vector<Sum> Widened(DLDataType dtype, const char* source, int64_t count) {
  std::vector<Sum> result(static_cast<size_t>(count));
  const int bytes = Bytes(dtype);
  for (int64_t i = 0; i < count; ++i) result[i] = static_cast<Sum>(ReadFloat(dtype, source + i * bytes));
  return result;
}

/// `matrix[rows, columns]` as [columns, rows].
template <typename Sum>
std::vector<Sum> Transposed(const std::vector<Sum>& matrix, int64_t rows, int64_t columns) {
  std::vector<Sum> result(matrix.size());
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column)
      result[column * rows + row] = matrix[row * columns + column];
  }
  return result;
}

template <typename Sum>
void MultiplyOne(const Product& p, const Operands& operands) {
  const int bytes = Bytes(p.dtype);
  std::vector<Sum> b = Widened<Sum>(p.dtype, operands.b, p.b_size());
  if (p.transpose_b) b = Transposed(b, p.n, p.k);
  const std::vector<Sum> bias = Widened<Sum>(p.dtype, operands.bias, p.has_bias ? p.n : 0);
  std::vector<Sum> sums(static_cast<size_t>(p.n));
  for (int64_t row = 0; row < p.m; ++row) {
    const std::vector<Sum> a = Widened<Sum>(p.dtype, operands.a + row * p.k * bytes, p.k);
    std::fill(sums.begin(), sums.end(), Sum(0));
    for (int64_t i = 0; i < p.k; ++i) {  // outside of the loop over columns, which then runs through memory
      for (int64_t column = 0; column < p.n; ++column) sums[column] += a[i] * b[i * p.n + column];
    }
    for (int64_t column = 0; column < p.n; ++column) {
      const Sum value = p.has_bias ? sums[column] + bias[column] : sums[column];
      const uint64_t bits = FloatBits(p.dtype, value);
      std::memcpy(operands.out + (row * p.n + column) * bytes, &bits, bytes);
    }
  }
}

}  // namespace

void MultiplyOnHost(const Product& product, const Operands& operands) {
  const int64_t bytes = Bytes(product.dtype);
  for (int64_t i = 0; i < product.count; ++i) {
    const Operands one{operands.a + i * product.a_step * bytes, operands.b + i * product.b_step * bytes,
                       operands.bias, operands.out + i * product.out_size() * bytes};
    Equal(product.dtype, kDouble) ? MultiplyOne<double>(product, one) : MultiplyOne<float>(product, one);
  }
}

}  // namespace fusebuild
