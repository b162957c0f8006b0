// Matrix products on CUDA devices by cuBLASLt, which is found at run time and not linked.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "product.h"

namespace fusebuild {

/// cuBLASLt on one device. Many threads may use it at once.
///
/// Results are bitwise equal from run to run: algorithms that split k add the parts in a step of their own
/// and never in the order in which blocks finish, and every call brings its own workspace, so that nothing
/// depends on what other streams do (cuBLAS documentation, "Results Reproducibility"). An algorithm is chosen
/// once for the sizes and the alignment of the operands.
class CublasLt {
 public:
  /// The one of `device`, whose context must be current. It lives as long as the process, since a captured
  /// graph may outlive the plan. `paths` are files to try where the process has not loaded cuBLASLt yet;
  /// throws RuntimeError that names what was looked for when none can be loaded. `what` begins messages.
  static CublasLt& Of(int device, const std::vector<std::string>& paths, const std::string& what);

  /// Bytes of device memory that Multiply needs besides the operands; at most 32 MiB, and a row and a column
  /// of zeros for a sum of nothing to which a residual is added, or copies of matrices with odd rows.
  int64_t ScratchBytes(const Product& product, const Operands& operands, const std::string& what);

  /// Enqueues the product on `stream`. `scratch` has ScratchBytes and starts at a multiple of 256.
  void Multiply(const Product& product, const Operands& operands, void* scratch, void* stream,
                const std::string& what);

 private:
  static constexpr size_t kRecent = 64;

  struct Prepared;
  using Key = std::array<int64_t, 15>;

  explicit CublasLt(void* handle);
  Prepared& Find(const Product& product, const Operands& operands, const std::string& what);
  void Enqueue(const Product& product, const Operands& operands, void* scratch, void* stream,
               const std::string& what);

  void* const handle_;
  std::mutex mutex_;  // a prepared product holds the address of the bias while it is enqueued
  std::map<Key, std::unique_ptr<Prepared>> prepared_;
  struct {
    Key key;
    Prepared* prepared = nullptr;
  } recent_[kRecent];  // of `prepared_`, each where its sizes lead: a lookup takes longer than a comparison
};

}  // namespace fusebuild
