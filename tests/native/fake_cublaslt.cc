// cuBLASLt on the CPU, as its documentation has it, for what the runtime asks of it: column-major matrices, a
// leading dimension, batches by stride, transposed operands, a bias along the rows, beta times C. It
// aborts where it is called as it must not be.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr size_t kWorkspaceBytes = 4096;

struct ProductDescriptor {
  int compute = 0, scale = 0;
  int32_t transpose_a = 0, transpose_b = 0;
  uint32_t epilogue = 1;  // CUBLASLT_EPILOGUE_DEFAULT
  const void* bias = nullptr;
};

struct Layout {
  int type = 0;
  uint64_t rows = 0, columns = 0;
  int64_t ld = 0, offset = 0;
  int32_t batch = 1;
};

struct Preference {
  uint64_t workspace = 0;
  uint32_t reduction = 7, alignment[4] = {256, 256, 256, 256};
};

struct Result {
  uint64_t algorithm[8];
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "fake cuBLASLt: %s\n", what);
  std::abort();
}

void Store(void* member, size_t member_bytes, const void* value, size_t bytes) {
  Require(member_bytes == bytes, "an attribute has another size");
  std::memcpy(member, value, bytes);
}

double At(const Layout& layout, const void* data, uint64_t row, uint64_t column, int64_t matrix) {
  const int64_t index =
      matrix * layout.offset + static_cast<int64_t>(column) * layout.ld + static_cast<int64_t>(row);
  return layout.type == 1 ? static_cast<const double*>(data)[index] : static_cast<const float*>(data)[index];
}

}  // namespace

extern "C" {

int cublasLtCreate(void** handle) {
  *handle = std::malloc(1);
  return 0;
}

const char* cublasLtGetStatusName(int status) {
  return status == 15 ? "CUBLAS_STATUS_NOT_SUPPORTED" : "CUBLAS_STATUS_INVALID_VALUE";
}

int cublasLtMatmulDescCreate(ProductDescriptor** descriptor, int compute, int scale) {
  Require((compute == 68 && scale == 0) || (compute == 70 && scale == 1),
          "compute and scale types do not fit");
  *descriptor = new ProductDescriptor{compute, scale};
  return 0;
}

int cublasLtMatmulDescDestroy(ProductDescriptor* descriptor) {
  delete descriptor;
  return 0;
}

int cublasLtMatmulDescSetAttribute(ProductDescriptor* d, int attribute, const void* value, size_t bytes) {
  if (attribute == 3) Store(&d->transpose_a, sizeof d->transpose_a, value, bytes);
  if (attribute == 4) Store(&d->transpose_b, sizeof d->transpose_b, value, bytes);
  if (attribute == 7) Store(&d->epilogue, sizeof d->epilogue, value, bytes);
  if (attribute == 8) Store(&d->bias, sizeof d->bias, value, bytes);
  return attribute == 3 || attribute == 4 || attribute == 7 || attribute == 8 ? 0 : 7;
}

int cublasLtMatrixLayoutCreate(Layout** layout, int type, uint64_t rows, uint64_t columns, int64_t ld) {
  Require(rows > 0 && columns > 0 && ld >= static_cast<int64_t>(rows),
          "a layout is empty or overlaps itself");
  *layout = new Layout{type, rows, columns, ld, 0, 1};
  return 0;
}

int cublasLtMatrixLayoutDestroy(Layout* layout) {
  delete layout;
  return 0;
}

int cublasLtMatrixLayoutSetAttribute(Layout* layout, int attribute, const void* value, size_t bytes) {
  if (attribute == 5) Store(&layout->batch, sizeof layout->batch, value, bytes);
  if (attribute == 6) Store(&layout->offset, sizeof layout->offset, value, bytes);
  return attribute == 5 || attribute == 6 ? 0 : 7;
}

int cublasLtMatmulPreferenceCreate(Preference** preference) {
  *preference = new Preference;
  return 0;
}

int cublasLtMatmulPreferenceDestroy(Preference* preference) {
  delete preference;
  return 0;
}

int cublasLtMatmulPreferenceSetAttribute(Preference* p, int attribute, const void* value, size_t bytes) {
  if (attribute == 1) Store(&p->workspace, sizeof p->workspace, value, bytes);
  if (attribute == 3) Store(&p->reduction, sizeof p->reduction, value, bytes);
  if (attribute >= 5 && attribute <= 8)
    Store(&p->alignment[attribute - 5], sizeof p->alignment[0], value, bytes);
  return 0;
}

int cublasLtMatmulAlgoGetHeuristic(void*, const ProductDescriptor* product, const Layout* a, const Layout*,
                                   const Layout* c, const Layout* d, const Preference* preference, int wanted,
                                   Result* result, int* found) {
  Require(wanted == 1 && c == d, "one algorithm in place was expected");
  Require(preference->reduction == 2, "parts of a split k must be added in a step of their own");
  Require(preference->workspace >= kWorkspaceBytes, "no workspace is allowed");
  Require((product->epilogue == 4) == (product->bias != nullptr), "the epilogue and the bias do not fit");
  if (a->columns == 13) return 15;  // a size that the tests know to be refused
  *found = 1;
  *result = {};
  result->workspace = kWorkspaceBytes;
  result->algorithm[0] = preference->alignment[0];
  return 0;
}

int cublasLtMatmul(void*, const ProductDescriptor* product, const void*, const void* a, const Layout* la,
                   const void* b, const Layout* lb, const void* beta, const void* c, const Layout* lc,
                   void* d, const Layout* ld, const uint64_t* algorithm, void* workspace,
                   size_t workspace_bytes, void*) {
  const double factor =
      product->scale == 1 ? *static_cast<const double*>(beta) : *static_cast<const float*>(beta);
  Require(lc == ld && (c == d || factor != 0) && workspace_bytes == kWorkspaceBytes,
          "the workspace is not what was asked for");
  Require(reinterpret_cast<uintptr_t>(workspace) % 256 == 0, "the workspace is not aligned");
  Require(reinterpret_cast<uintptr_t>(a) % algorithm[0] == 0, "A is less aligned than was said");
  std::memset(workspace, 0xff, workspace_bytes);
  const uint64_t k = product->transpose_a != 0 ? la->rows : la->columns;
  const bool is_turned = product->transpose_b != 0;
  Require((is_turned ? lb->columns : lb->rows) == k, "the sizes do not fit");
  Require((is_turned ? lb->rows : lb->columns) == ld->columns, "the sizes do not fit");
  Require((product->transpose_a != 0 ? la->columns : la->rows) == ld->rows, "the sizes do not fit");
  Require(la->batch == ld->batch && lb->batch == ld->batch, "the batches do not fit");
  const Layout bias_layout{ld->type, ld->rows, 1, static_cast<int64_t>(ld->rows), 0, 1};
  for (int32_t i = 0; i < ld->batch; ++i) {
    for (uint64_t column = 0; column < ld->columns; ++column) {
      for (uint64_t row = 0; row < ld->rows; ++row) {
        double sum = 0;
        for (uint64_t inner = 0; inner < k; ++inner) {
          const double left =
              product->transpose_a != 0 ? At(*la, a, inner, row, i) : At(*la, a, row, inner, i);
          sum += left * (is_turned ? At(*lb, b, column, inner, i) : At(*lb, b, inner, column, i));
        }
        if (factor != 0) sum += factor * At(*ld, c, row, column, i);
        if (product->epilogue == 4) sum += At(bias_layout, product->bias, row, 0, 0);
        const int64_t index =
            i * ld->offset + static_cast<int64_t>(column) * ld->ld + static_cast<int64_t>(row);
        ld->type == 1 ? static_cast<double*>(d)[index] = sum
                      : static_cast<float*>(d)[index] = static_cast<float>(sum);
      }
    }
  }
  return 0;
}

}  // extern "C"
