// Asks the runtime's cuBLASLt, for which the file named first stands in, for products and compares them with
// the host backend's. Prints what differs, and the messages of two errors.
#include "cublaslt.h"

#include <tvm/ffi/error.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

using fusebuild::CublasLt;
using fusebuild::Operands;
using fusebuild::Product;

template <typename T>
std::vector<T> Numbers(int64_t count, int seed) {
  std::vector<T> numbers(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    numbers[i] = static_cast<T>((i * 37 + seed * 11) % 17 - 8);  // sums are exact
  return numbers;
}

struct Sizes {
  int64_t m, n, k, count, a_step, b_step, gap;
};

template <typename T>
bool Agrees(CublasLt* library, const Product& p, int shift) {
  const int64_t last = p.count - 1;
  const std::vector<T> a = Numbers<T>(last * p.a_step + (p.transpose_a ? p.k : p.m) * p.lda + shift, 1);
  const std::vector<T> b = Numbers<T>(last * p.b_step + (p.transpose_b ? p.n : p.k) * p.ldb + shift, 2);
  const std::vector<T> bias = Numbers<T>(p.n, 3), residual = Numbers<T>(p.count * p.out_size(), 4);
  std::vector<T> got(static_cast<size_t>(p.count * p.out_size()), T(-1)), want(got);
  auto bytes = [](const std::vector<T>& numbers) { return reinterpret_cast<const char*>(numbers.data()); };
  Operands operands{bytes(a) + shift * sizeof(T), bytes(b) + shift * sizeof(T),
                    p.epilogue.has_bias ? bytes(bias) : nullptr,
                    p.epilogue.beta != 0 ? bytes(residual) : nullptr, reinterpret_cast<char*>(want.data())};
  fusebuild::MultiplyOnHost(p, operands);
  operands.out = reinterpret_cast<char*>(got.data());
  const int64_t scratch_bytes = library->ScratchBytes(p, operands, "f");
  void* scratch = std::aligned_alloc(256, static_cast<size_t>(scratch_bytes));
  library->Multiply(p, operands, scratch, nullptr, "f");
  std::free(scratch);
  return got == want;
}

template <typename F>
void PrintError(F action) {
  try {
    action();
    std::puts("no error");
  } catch (const tvm::ffi::Error& error) {
    std::printf("%s: %s\n", error.kind().c_str(), error.message().c_str());
  }
}

}  // namespace

int main(int, char** arguments) {
  PrintError([] { CublasLt::Of(0, {"/nowhere/libcublasLt.so.13"}, "f"); });
  CublasLt& library = CublasLt::Of(0, {"/nowhere/libcublasLt.so.13", arguments[1]}, "f");
  int wrong = 0;
  const fusebuild::Epilogue epilogues[] = {{}, {true, 0}, {false, 1}, {true, -2}};
  const Sizes sizes[] = {{5, 7, 3, 1, 0, 0, 0},  {1, 1, 1, 1, 0, 0, 0},  {2, 3, 4, 5, 8, 12, 0},
                         {2, 3, 4, 5, 0, 12, 0}, {2, 3, 4, 5, 11, 0, 0}, {1, 2, 1, 70000, 1, 0, 0},
                         {1, 9, 2, 3, 2, 18, 0}, {6, 2, 3, 2, 40, 40, 4}};
  for (const DLDataType dtype : {fusebuild::kFloat, fusebuild::kDouble}) {
    for (int flags = 0; flags < 4; ++flags) {
      for (const fusebuild::Epilogue& epilogue : epilogues) {
        for (const Sizes& s : sizes) {
          const bool transpose_a = (flags & 1) != 0, transpose_b = (flags & 2) != 0;
          const int64_t lda = (transpose_a ? s.m : s.k) + s.gap, ldb = (transpose_b ? s.k : s.n) + s.gap;
          const Product p{dtype, transpose_a, transpose_b, epilogue, s.m,      s.n,
                          s.k,   s.count,     lda,         ldb,      s.a_step, s.b_step};
          for (const int shift : {0, 1, 0}) {
            const bool ok = fusebuild::Equal(dtype, fusebuild::kDouble) ? Agrees<double>(&library, p, shift)
                                                                        : Agrees<float>(&library, p, shift);
            if (ok) continue;
            ++wrong;
            std::printf("wrong: dtype %s transposed %d epilogue %d m %ld n %ld k %ld count %ld\n",
                        fusebuild::Describe(dtype).c_str(), flags, static_cast<int>(&epilogue - epilogues),
                        static_cast<long>(p.m), static_cast<long>(p.n), static_cast<long>(p.k),
                        static_cast<long>(p.count));
          }
        }
      }
    }
  }
  std::printf("%d products are wrong\n", wrong);
  PrintError(
      [&] { Agrees<float>(&library, {fusebuild::kFloat, false, false, {}, 4, 2, 13, 1, 13, 2, 0, 0}, 0); });
  return 0;
}
