#include <algorithm>
#include <cstring>
#include <vector>

#include "product.h"

namespace fusebuild {
namespace {

/// `count` elements of `dtype`, `stride` elements apart, as `Sum`s, which hold them exactly.
template <typename Sum>
std::vector<Sum> Widened(DLDataType dtype, const char* source, int64_t count, int64_t stride = 1) {
  std::vector<Sum> result(static_cast<size_t>(count));
  const int64_t bytes = stride * Bytes(dtype);
  for (int64_t i = 0; i < count; ++i) result[i] = static_cast<Sum>(ReadFloat(dtype, source + i * bytes));
  return result;
}

/// Row `row` of a matrix of `columns` that lies in memory with the leading dimension `ld`, maybe transposed.
template <typename Sum>
std::vector<Sum> Row(DLDataType dtype, const char* matrix, int64_t row, int64_t columns, int64_t ld,
                     bool transposed) {
  const char* first = matrix + row * (transposed ? 1 : ld) * Bytes(dtype);
  return Widened<Sum>(dtype, first, columns, transposed ? ld : 1);
}

template <typename Sum>
void Finish(const Epilogue& epilogue, const std::vector<Sum>& bias, const std::vector<Sum>& residual,
            std::vector<Sum>* sums) {
  for (size_t i = 0; i < sums->size(); ++i) {
    Sum& sum = (*sums)[i];
    if (!bias.empty()) sum += bias[i];
    if (!residual.empty()) sum += static_cast<Sum>(epilogue.beta) * residual[i];
  }
}

template <typename Sum>
void MultiplyOne(const Product& p, const Operands& operands) {
  const int bytes = Bytes(p.dtype);
  std::vector<std::vector<Sum>> b;
  for (int64_t i = 0; i < p.k; ++i) b.push_back(Row<Sum>(p.dtype, operands.b, i, p.n, p.ldb, p.transpose_b));
  const std::vector<Sum> bias = Widened<Sum>(p.dtype, operands.bias, p.epilogue.has_bias ? p.n : 0);
  std::vector<Sum> sums(static_cast<size_t>(p.n));
  for (int64_t row = 0; row < p.m; ++row) {
    const std::vector<Sum> a = Row<Sum>(p.dtype, operands.a, row, p.k, p.lda, p.transpose_a);
    std::fill(sums.begin(), sums.end(), Sum(0));
    for (int64_t i = 0; i < p.k; ++i) {  // outside of the loop over columns, which then runs through memory
      for (int64_t column = 0; column < p.n; ++column) sums[column] += a[i] * b[i][column];
    }
    const int64_t first = row * (p.n + p.gap) * bytes;
    const bool has_residual = p.epilogue.beta != 0;
    const char* residual = has_residual ? operands.residual + first : nullptr;
    Finish(p.epilogue, bias, Widened<Sum>(p.dtype, residual, has_residual ? p.n : 0), &sums);
    for (int64_t column = 0; column < p.n; ++column) {
      const uint64_t bits = FloatBits(p.dtype, sums[column]);
      std::memcpy(operands.out + first + column * bytes, &bits, bytes);
    }
  }
}

}  // namespace

Operands From(const Product& product, const Operands& operands, int64_t first) {
  const int64_t bytes = Bytes(product.dtype), out = first * product.out_size() * bytes;
  return {operands.a + first * product.a_step * bytes, operands.b + first * product.b_step * bytes,
          operands.bias, operands.residual == nullptr ? nullptr : operands.residual + out,
          operands.out + out};
}

void MultiplyOnHost(const Product& product, const Operands& operands) {
  for (int64_t i = 0; i < product.count; ++i) {
    const Operands one = From(product, operands, i);
    Equal(product.dtype, kDouble) ? MultiplyOne<double>(product, one) : MultiplyOne<float>(product, one);
  }
}

}  // namespace fusebuild
