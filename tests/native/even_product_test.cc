// Products of even copies, which a driver that stands in makes, against products of what was copied.
#include "even_product.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

using fusebuild::EvenProduct;
using fusebuild::Operands;
using fusebuild::Product;

std::vector<uint16_t> Numbers(int64_t count, int seed) {
  std::vector<uint16_t> numbers(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    numbers[i] = static_cast<uint16_t>(
        fusebuild::FloatBits(fusebuild::kBFloat16, static_cast<double>((i * 37 + seed * 11) % 17 - 8)));
  return numbers;
}

bool Agrees(const Product& p) {
  const std::vector<uint16_t> a = Numbers((p.transpose_a ? p.k : p.m) * p.lda, 1);
  const std::vector<uint16_t> b = Numbers((p.transpose_b ? p.n : p.k) * p.ldb, 2), bias = Numbers(p.n, 3);
  std::vector<uint16_t> want(static_cast<size_t>(p.out_size()), 0x7fc0), got(want);
  auto bytes = [](const std::vector<uint16_t>& numbers) {
    return reinterpret_cast<const char*>(numbers.data());
  };
  Operands operands{bytes(a), bytes(b), p.epilogue.has_bias ? bytes(bias) : nullptr, nullptr,
                    reinterpret_cast<char*>(want.data())};
  fusebuild::MultiplyOnHost(p, operands);
  operands.out = reinterpret_cast<char*>(got.data());
  const EvenProduct even(p);
  char* scratch = static_cast<char*>(std::aligned_alloc(256, static_cast<size_t>(even.bytes() + 256)));
  std::memset(scratch, 0xff, static_cast<size_t>(even.bytes()));  // what is no number
  const Operands within = even.Within(operands, scratch);
  even.CopyIn(operands, within, nullptr, "f");
  fusebuild::MultiplyOnHost(even.product, within);
  even.CopyOut(within, operands, nullptr, "f");
  std::free(scratch);
  return got == want;
}

}  // namespace

int main() {
  int wrong = 0, copied = 0;
  const int64_t sizes[][3] = {{5, 7, 3}, {8, 16, 24}, {8, 9, 16}, {9, 8, 17},
                              {1, 1, 1}, {16, 3, 8},  {3, 16, 9}};
  for (const auto& [m, n, k] : sizes) {
    for (int flags = 0; flags < 8; ++flags) {
      const bool transpose_a = (flags & 1) != 0, transpose_b = (flags & 2) != 0;
      const Product p{fusebuild::kBFloat16,
                      transpose_a,
                      transpose_b,
                      {(flags & 4) != 0, 0},
                      m,
                      n,
                      k,
                      1,
                      transpose_a ? m : k,
                      transpose_b ? k : n,
                      0,
                      0};
      copied += EvenProduct(p).bytes() > 0;
      if (Agrees(p)) continue;
      ++wrong;
      std::printf("wrong: flags %d m %ld n %ld k %ld\n", flags, static_cast<long>(m), static_cast<long>(n),
                  static_cast<long>(k));
    }
  }
  std::printf("%d of %d products were copied, %d are wrong\n", copied, 7 * 8, wrong);
  auto of = [](DLDataType dtype, int64_t m, int64_t n, int64_t k, int64_t count) {
    const Product p{dtype, false, true, {}, m, n, k, count, k, k, m * k, 0};
    return EvenProduct::Of(p).bytes();
  };
  std::printf("%ld %ld %ld %ld %ld\n", static_cast<long>(of(fusebuild::kBFloat16, 16515, 1653, 409, 1)),
              static_cast<long>(of(fusebuild::kBFloat16, 16512, 1656, 416, 1)),
              static_cast<long>(of(fusebuild::kBFloat16, 34, 101, 409, 1)),
              static_cast<long>(of(fusebuild::kFloat, 16515, 1653, 409, 1)),
              static_cast<long>(of(fusebuild::kHalf, 16515, 1653, 409, 2)));
  return 0;
}
