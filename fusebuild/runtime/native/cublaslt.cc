#include "cublaslt.h"

#include <dlfcn.h>

#include <algorithm>

#include "cuda_driver.h"
#include "error.h"
#include "even_product.h"

namespace fusebuild {
namespace {

// The part of cublasLt.h that is used here. Descriptors are opaque; names and numbers are those of the
// header, which CUDA 12 and 13 share (https://docs.nvidia.com/cuda/cublas/#using-the-cublaslt-api).

using Status = int;
using Descriptor = void*;  // cublasLtMatmulDesc_t, cublasLtMatrixLayout_t or cublasLtMatmulPreference_t

constexpr Status kStatusSuccess = 0;
constexpr int kReal32 = 0, kReal64 = 1, kReal16 = 2,
              kBrain16 = 14;                     // cudaDataType: CUDA_R_32F, …, CUDA_R_16BF
constexpr int kCompute32 = 68, kCompute64 = 70;  // CUBLAS_COMPUTE_32F (no TF32), CUBLAS_COMPUTE_64F
constexpr int32_t kTransposed = 1;               // CUBLAS_OP_T
constexpr int kDescTransposeA = 3, kDescTransposeB = 4, kDescEpilogue = 7,
              kDescBiasPointer = 8;                           // CUBLASLT_MATMUL_DESC_…
constexpr uint32_t kEpilogueBias = 4;                         // CUBLASLT_EPILOGUE_BIAS
constexpr int kLayoutBatchCount = 5, kLayoutBatchOffset = 6;  // CUBLASLT_MATRIX_LAYOUT_…
constexpr int kPreferWorkspace = 1, kPreferReduction = 3;     // CUBLASLT_MATMUL_PREF_…
constexpr int kPreferAlignmentA = 5, kPreferAlignmentB = 6, kPreferAlignmentC = 7, kPreferAlignmentD = 8;
// CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE: parts of a split k go to the workspace and are added in a step of
// their own. Not splitting k is always allowed. Left out are sums in the output's own dtype, which round in
// between.
constexpr uint32_t kReduction = 2;

constexpr uint64_t kMaxScratch = 32 << 20;
constexpr int64_t kMaxCount = 65535;   // products in one call: what every algorithm's grid can hold
constexpr int64_t kMostAligned = 256;  // what algorithms can ask of an address
constexpr size_t kMaxPrepared = 4096;

struct Algorithm {
  uint64_t data[8];
};

struct HeuristicResult {
  Algorithm algorithm;
  size_t workspace_bytes;
  Status state;
  float waves;
  int reserved[4];
};

/// cuBLASLt's functions; each member is called as in cublasLt.h.
struct Library {
  Status (*cublasLtCreate)(void**);
  const char* (*cublasLtGetStatusName)(Status);
  Status (*cublasLtMatmulDescCreate)(Descriptor*, int compute, int scale);
  Status (*cublasLtMatmulDescDestroy)(Descriptor);
  Status (*cublasLtMatmulDescSetAttribute)(Descriptor, int, const void*, size_t);
  Status (*cublasLtMatrixLayoutCreate)(Descriptor*, int type, uint64_t rows, uint64_t columns, int64_t ld);
  Status (*cublasLtMatrixLayoutDestroy)(Descriptor);
  Status (*cublasLtMatrixLayoutSetAttribute)(Descriptor, int, const void*, size_t);
  Status (*cublasLtMatmulPreferenceCreate)(Descriptor*);
  Status (*cublasLtMatmulPreferenceDestroy)(Descriptor);
  Status (*cublasLtMatmulPreferenceSetAttribute)(Descriptor, int, const void*, size_t);
  Status (*cublasLtMatmulAlgoGetHeuristic)(void* handle, Descriptor product, Descriptor a, Descriptor b,
                                           Descriptor c, Descriptor d, Descriptor preference, int wanted,
                                           HeuristicResult*, int* found);
  Status (*cublasLtMatmul)(void* handle, Descriptor product, const void* alpha, const void* a, Descriptor,
                           const void* b, Descriptor, const void* beta, const void* c, Descriptor, void* d,
                           Descriptor, const Algorithm*, void* workspace, size_t workspace_bytes,
                           void* stream);
};

/// The copy that the process has already (torch brings one), else one of `paths`, else the system's.
void* OpenLibrary(const std::vector<std::string>& paths) {
  const char* const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"};
  for (const char* name : names) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) return library;
  }
  std::string looked;
  auto open = [&looked](const std::string& name) {
    looked += (looked.empty() ? "" : ", ") + name;
    return dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  };
  for (const std::string& path : paths) {
    if (void* library = open(path)) return library;
  }
  for (const char* name : names) {
    if (void* library = open(name)) return library;
  }
  ThrowRuntimeError("cuBLASLt, which computes matrix products, cannot be loaded: looked for " + looked +
                    "; it comes with the CUDA toolkit and with the Python package nvidia-cublas");
}

template <typename F>
void Find(void* library, const char* symbol, F* function) {
  *function = reinterpret_cast<F>(dlsym(library, symbol));
  if (*function == nullptr) ThrowRuntimeError(std::string("cuBLASLt is too old: it has no ") + symbol);
}

Library LoadLibrary(const std::vector<std::string>& paths) {
  void* file = OpenLibrary(paths);
  Library library;
  Find(file, "cublasLtCreate", &library.cublasLtCreate);
  Find(file, "cublasLtGetStatusName", &library.cublasLtGetStatusName);
  Find(file, "cublasLtMatmulDescCreate", &library.cublasLtMatmulDescCreate);
  Find(file, "cublasLtMatmulDescDestroy", &library.cublasLtMatmulDescDestroy);
  Find(file, "cublasLtMatmulDescSetAttribute", &library.cublasLtMatmulDescSetAttribute);
  Find(file, "cublasLtMatrixLayoutCreate", &library.cublasLtMatrixLayoutCreate);
  Find(file, "cublasLtMatrixLayoutDestroy", &library.cublasLtMatrixLayoutDestroy);
  Find(file, "cublasLtMatrixLayoutSetAttribute", &library.cublasLtMatrixLayoutSetAttribute);
  Find(file, "cublasLtMatmulPreferenceCreate", &library.cublasLtMatmulPreferenceCreate);
  Find(file, "cublasLtMatmulPreferenceDestroy", &library.cublasLtMatmulPreferenceDestroy);
  Find(file, "cublasLtMatmulPreferenceSetAttribute", &library.cublasLtMatmulPreferenceSetAttribute);
  Find(file, "cublasLtMatmulAlgoGetHeuristic", &library.cublasLtMatmulAlgoGetHeuristic);
  Find(file, "cublasLtMatmul", &library.cublasLtMatmul);
  return library;
}

/// The library, loaded once per process. When it throws, the next call tries again.
const Library& GetLibrary(const std::vector<std::string>& paths = {}) {
  static const Library library = LoadLibrary(paths);
  return library;
}

void Check(Status code, const char* call, const std::string& what) {
  if (code == kStatusSuccess) return;
  ThrowRuntimeError(what + ": " + call + " failed: " + GetLibrary().cublasLtGetStatusName(code));
}

/// A descriptor that is destroyed with its owner.
class Owned {
 public:
  Owned(Descriptor descriptor, Status (*destroy)(Descriptor)) : descriptor_(descriptor), destroy_(destroy) {}
  ~Owned() { destroy_(descriptor_); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;

  Descriptor get() const { return descriptor_; }

 private:
  Descriptor descriptor_;
  Status (*destroy_)(Descriptor);
};

int DataType(DLDataType dtype) {
  if (Equal(dtype, kDouble)) return kReal64;
  if (Equal(dtype, kHalf)) return kReal16;
  return Equal(dtype, kBFloat16) ? kBrain16 : kReal32;
}

Descriptor CreateProduct(DLDataType dtype, const std::string& what) {
  const bool is_double = Equal(dtype, kDouble);
  Descriptor product = nullptr;
  Check(GetLibrary().cublasLtMatmulDescCreate(&product, is_double ? kCompute64 : kCompute32,
                                              is_double ? kReal64 : kReal32),
        "cublasLtMatmulDescCreate", what);
  return product;
}

/// A column-major matrix, whose columns begin `ld` elements apart; `step` leads from one product's to the
/// next one's.
Descriptor CreateLayout(DLDataType dtype, int64_t rows, int64_t columns, int64_t ld, int64_t count,
                        int64_t step, const std::string& what) {
  const Library& library = GetLibrary();
  Descriptor layout = nullptr;
  Check(library.cublasLtMatrixLayoutCreate(&layout, DataType(dtype), rows, columns, ld),
        "cublasLtMatrixLayoutCreate", what);
  const int32_t batch = static_cast<int32_t>(count);
  Check(library.cublasLtMatrixLayoutSetAttribute(layout, kLayoutBatchCount, &batch, sizeof batch),
        "cublasLtMatrixLayoutSetAttribute", what);
  Check(library.cublasLtMatrixLayoutSetAttribute(layout, kLayoutBatchOffset, &step, sizeof step),
        "cublasLtMatrixLayoutSetAttribute", what);
  return layout;
}

Descriptor CreatePreference(const std::string& what) {
  Descriptor preference = nullptr;
  Check(GetLibrary().cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate", what);
  return preference;
}

/// The largest power of two, up to 256, that every address is a multiple of.
uint32_t Alignment(std::initializer_list<const void*> addresses) {
  uintptr_t bits = kMostAligned;
  for (const void* address : addresses) bits |= reinterpret_cast<uintptr_t>(address);
  return static_cast<uint32_t>(bits & (~bits + 1));
}

Product WithCount(Product product, int64_t count) {
  product.count = count;
  return product;
}

/// A sum of nothing, without a residual: every row of `out` is the bias, or zeros. Rows that
/// are there already are copied behind themselves, so that a few copies fill any number of rows.
void FillRows(const Product& product, const Operands& operands, void* stream, const std::string& what) {
  using namespace cuda;
  const Driver& driver = GetDriver();
  const CUstream on = static_cast<CUstream>(stream);
  const CUdeviceptr out = reinterpret_cast<CUdeviceptr>(operands.out);
  const int64_t row = product.n * Bytes(product.dtype), all = row * product.m * product.count;
  if (!product.epilogue.has_bias) {
    cuda::Check(driver.cuMemsetD8Async(out, 0, all, on), "cuMemsetD8Async", what);
    return;
  }
  const CUdeviceptr bias = reinterpret_cast<CUdeviceptr>(operands.bias);
  cuda::Check(driver.cuMemcpyDtoDAsync(out, bias, row, on), "cuMemcpyDtoDAsync", what);
  for (int64_t filled = row; filled < all; filled *= 2) {
    cuda::Check(driver.cuMemcpyDtoDAsync(out + filled, out, std::min(filled, all - filled), on),
                "cuMemcpyDtoDAsync", what);
  }
}

/// Whether every row of the result is the same, for which no product is needed.
bool IsFilled(const Product& product) { return product.k == 0 && product.epilogue.beta == 0; }

/// Bytes of zeros that stand for both operands of a sum of nothing, at the beginning of the scratch; 0 for a
/// sum of something.
int64_t ZeroBytes(const Product& product) {
  if (product.k > 0) return 0;
  const int64_t bytes = std::max(product.m, product.n) * Bytes(product.dtype);
  return (bytes + kMostAligned - 1) / kMostAligned * kMostAligned;
}

/// `product`, a sum of nothing, as a sum of one zero.
Product OfZeros(Product product) {
  product.transpose_a = product.transpose_b = false;
  product.k = product.lda = 1;
  product.ldb = product.n;
  product.a_step = product.b_step = 0;
  return product;
}

std::string Show(const Product& product) {
  auto matrix = [](int64_t rows, int64_t columns) {
    return "[" + std::to_string(rows) + ", " + std::to_string(columns) + "]";
  };
  const std::string count = product.count == 1 ? "a product" : std::to_string(product.count) + " products";
  return count + " of " + Describe(product.dtype) + matrix(product.m, product.k) + " and " +
         matrix(product.k, product.n);
}

}  // namespace

/// A product with its algorithm. The library's matrices are column-major, so it computes the transposed
/// product: its A is our b, its B our a, and its D our out, whose rows are our columns.
struct CublasLt::Prepared {
  Prepared(const Product& p, const std::string& what)
      : product(CreateProduct(p.dtype, what), GetLibrary().cublasLtMatmulDescDestroy),
        a(p.transpose_b ? CreateLayout(p.dtype, p.k, p.n, p.ldb, p.count, p.b_step, what)
                        : CreateLayout(p.dtype, p.n, p.k, p.ldb, p.count, p.b_step, what),
          GetLibrary().cublasLtMatrixLayoutDestroy),
        b(p.transpose_a ? CreateLayout(p.dtype, p.m, p.k, p.lda, p.count, p.a_step, what)
                        : CreateLayout(p.dtype, p.k, p.m, p.lda, p.count, p.a_step, what),
          GetLibrary().cublasLtMatrixLayoutDestroy),
        d(CreateLayout(p.dtype, p.n, p.m, p.n + p.gap, p.count, p.out_size(), what),
          GetLibrary().cublasLtMatrixLayoutDestroy) {
    if (p.transpose_b) Set(kDescTransposeA, kTransposed, what);
    if (p.transpose_a) Set(kDescTransposeB, kTransposed, what);
    if (p.epilogue.has_bias) Set(kDescEpilogue, kEpilogueBias, what);
  }

  template <typename T>
  void Set(int attribute, T value, const std::string& what) {
    Check(GetLibrary().cublasLtMatmulDescSetAttribute(product.get(), attribute, &value, sizeof value),
          "cublasLtMatmulDescSetAttribute", what);
  }

  void SetBias(const char* bias, const std::string& what) { Set(kDescBiasPointer, bias, what); }

  void ChooseAlgorithm(void* handle, const Product& p, const Operands& operands, const std::string& what);

  Owned product, a, b, d;
  Algorithm algorithm;
  int64_t scratch_bytes = 0;
};

void CublasLt::Prepared::ChooseAlgorithm(void* handle, const Product& p, const Operands& operands,
                                         const std::string& what) {
  const Library& library = GetLibrary();
  if (p.epilogue.has_bias) SetBias(operands.bias, what);  // its alignment matters to the choice
  const Owned preference(CreatePreference(what), library.cublasLtMatmulPreferenceDestroy);
  auto prefer = [&](int attribute, auto value) {
    Check(library.cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value),
          "cublasLtMatmulPreferenceSetAttribute", what);
  };
  prefer(kPreferWorkspace, kMaxScratch);
  prefer(kPreferReduction, kReduction);
  prefer(kPreferAlignmentA, Alignment({operands.b}));
  prefer(kPreferAlignmentB, Alignment({operands.a}));
  prefer(kPreferAlignmentC, Alignment({operands.residual, operands.out, operands.bias}));
  prefer(kPreferAlignmentD, Alignment({operands.out, operands.bias}));
  HeuristicResult result{};
  int found = 0;
  const Status code = library.cublasLtMatmulAlgoGetHeuristic(handle, product.get(), a.get(), b.get(), d.get(),
                                                             d.get(), preference.get(), 1, &result, &found);
  if (code != kStatusSuccess || found == 0 || result.state != kStatusSuccess) {
    const Status reason = code != kStatusSuccess ? code : result.state;
    const std::string name = reason != kStatusSuccess ? library.cublasLtGetStatusName(reason) : "none found";
    ThrowRuntimeError(what + ": cuBLASLt has no algorithm for " + Show(p) + ": " + name);
  }
  algorithm = result.algorithm;
  scratch_bytes = static_cast<int64_t>(result.workspace_bytes);
}

CublasLt::CublasLt(void* handle) : handle_(handle) {}

CublasLt& CublasLt::Of(int device, const std::vector<std::string>& paths, const std::string& what) {
  static std::mutex mutex;
  static std::map<int, CublasLt*>* const devices = new std::map<int, CublasLt*>();
  std::lock_guard lock(mutex);
  auto found = devices->find(device);
  if (found != devices->end()) return *found->second;
  void* handle = nullptr;
  Check(GetLibrary(paths).cublasLtCreate(&handle), "cublasLtCreate", what);
  return *devices->emplace(device, new CublasLt(handle)).first->second;
}

CublasLt::Prepared& CublasLt::Find(const Product& p, const Operands& operands, const std::string& what) {
  const Key key = {DataType(p.dtype),
                   p.transpose_a + 2 * p.transpose_b + 4 * p.epilogue.has_bias + 8 * (p.epilogue.beta != 0),
                   p.m,
                   p.n,
                   p.k,
                   p.count,
                   p.lda,
                   p.ldb,
                   p.gap,
                   p.a_step,
                   p.b_step,
                   Alignment({operands.a}),
                   Alignment({operands.b}),
                   Alignment({operands.out, operands.bias}),
                   Alignment({operands.residual, operands.out, operands.bias})};
  auto& recent = recent_[static_cast<uint64_t>(p.m * 31 + p.n * 7 + p.k + p.lda) % kRecent];
  if (recent.prepared != nullptr && recent.key == key) return *recent.prepared;
  auto found = prepared_.find(key);
  if (found == prepared_.end()) {
    auto prepared = std::make_unique<Prepared>(p, what);
    prepared->ChooseAlgorithm(handle_, p, operands, what);
    if (prepared_.size() >= kMaxPrepared) {
      prepared_.clear();
      for (auto& each : recent_) each.prepared = nullptr;
    }
    found = prepared_.emplace(key, std::move(prepared)).first;
  }
  recent.key = key;
  recent.prepared = found->second.get();
  return *recent.prepared;
}

int64_t CublasLt::ScratchBytes(const Product& product, const Operands& operands, const std::string& what) {
  if (IsFilled(product)) return 0;
  const EvenProduct even = EvenProduct::Of(product);
  if (even.bytes() > 0) {
    const Operands within =
        even.Within(operands, reinterpret_cast<char*>(kMostAligned));  // as the scratch is
    std::lock_guard lock(mutex_);
    return even.bytes() + Find(even.product, within, what).scratch_bytes;
  }
  const int64_t zeros = ZeroBytes(product);
  const Product whole = zeros > 0 ? OfZeros(product) : product;
  std::lock_guard lock(mutex_);
  int64_t bytes = 0;
  for (int64_t first = 0; first < product.count; first += kMaxCount) {
    const Product part = WithCount(whole, std::min(kMaxCount, product.count - first));
    Operands at = From(whole, operands, first);
    if (zeros > 0) at.a = at.b = nullptr;  // scratch, which is as aligned as can be
    bytes = std::max(bytes, Find(part, at, what).scratch_bytes);
  }
  return zeros + bytes;
}

void CublasLt::Multiply(const Product& product, const Operands& operands, void* scratch, void* stream,
                        const std::string& what) {
  if (IsFilled(product)) return FillRows(product, operands, stream, what);
  const EvenProduct even = EvenProduct::Of(product);
  if (even.bytes() > 0) {
    char* const copies = static_cast<char*>(scratch);
    const Operands within = even.Within(operands, copies);
    even.CopyIn(operands, within, stream, what);
    Enqueue(even.product, within, copies + even.bytes(), stream, what);
    return even.CopyOut(within, operands, stream, what);
  }
  const int64_t zeros = ZeroBytes(product);
  if (zeros == 0) return Enqueue(product, operands, scratch, stream, what);
  const cuda::CUdeviceptr at = reinterpret_cast<cuda::CUdeviceptr>(scratch);
  cuda::Check(cuda::GetDriver().cuMemsetD8Async(at, 0, zeros, static_cast<cuda::CUstream>(stream)),
              "cuMemsetD8Async", what);
  const char* zero = static_cast<const char*>(scratch);
  const Operands empty{zero, zero, operands.bias, operands.residual, operands.out};
  Enqueue(OfZeros(product), empty, static_cast<char*>(scratch) + zeros, stream, what);
}

void CublasLt::Enqueue(const Product& product, const Operands& operands, void* scratch, void* stream,
                       const std::string& what) {
  static constexpr double kOne64 = 1;
  static constexpr float kOne32 = 1;
  const bool is_double = Equal(product.dtype, kDouble);
  const void* one = is_double ? static_cast<const void*>(&kOne64) : &kOne32;
  const double beta64 = product.epilogue.beta;
  const float beta32 = static_cast<float>(beta64);
  const void* beta = is_double ? static_cast<const void*>(&beta64) : &beta32;
  std::lock_guard lock(mutex_);
  for (int64_t first = 0; first < product.count; first += kMaxCount) {
    const Product part = WithCount(product, std::min(kMaxCount, product.count - first));
    const Operands at = From(product, operands, first);
    Prepared& prepared = Find(part, at, what);
    if (part.epilogue.has_bias) prepared.SetBias(at.bias, what);
    Check(GetLibrary().cublasLtMatmul(handle_, prepared.product.get(), one, at.b, prepared.a.get(), at.a,
                                      prepared.b.get(), beta, at.residual == nullptr ? at.out : at.residual,
                                      prepared.d.get(), at.out, prepared.d.get(), &prepared.algorithm,
                                      scratch, prepared.scratch_bytes, stream),
          "cublasLtMatmul", what + ": " + Show(part));
  }
}

}  // namespace fusebuild
