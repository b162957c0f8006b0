// The host backend: each kernel is a shared object with one entry that runs a whole grid.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <utility>

#include "backend.h"
#include "error.h"

namespace fusebuild {
namespace {

using Entry = int32_t (*)(const int64_t* grid, const int32_t* block, int64_t shared_bytes, void** args);

/// Another spelling of `/proc/self/fd/<descriptor>` for each call: "//" and "/./" spell the bits of a
/// counter.
///
/// glibc knows libraries by the path they were opened with, and it keeps one after dlclose when the library
/// has thread-local destructors or unique symbols, as kernels do. A path that came back would name the older
/// kernel.
std::string UnusedPath(int descriptor) {
  static std::atomic<uint64_t> opened{0};
  std::string path = "/proc/self/fd";
  for (uint64_t bits = ++opened; bits != 0; bits >>= 1) path += (bits & 1) != 0 ? "/." : "/";
  return path + "/" + std::to_string(descriptor);
}

/// A shared object loaded from bytes in memory.
class LoadedObject {
 public:
  LoadedObject(const std::string& fusion, const KernelObject& kernel) {
    const std::string what = fusion + ": kernel " + kernel.name + ": ";
    const int descriptor = memfd_create(kernel.name.c_str(), MFD_CLOEXEC);
    if (descriptor < 0) ThrowRuntimeError(what + "cannot create a file in memory");
    const bool written = WriteAll(descriptor, kernel.bytes);
    if (written) library_ = dlopen(UnusedPath(descriptor).c_str(), RTLD_NOW | RTLD_LOCAL);
    close(descriptor);
    if (!written) ThrowValueError(what + "cannot write a file in memory");
    if (library_ == nullptr) ThrowValueError(what + "the shared object cannot be loaded: " + dlerror());
    const std::string symbol = "fusebuild_host_" + kernel.name;
    entry_ = reinterpret_cast<Entry>(dlsym(library_, symbol.c_str()));
    std::string problem = entry_ == nullptr ? "the shared object has no symbol " + symbol : "";
    const auto* own = static_cast<const char*>(dlsym(library_, (symbol + "_parameters").c_str()));
    if (problem.empty() && own != nullptr && own != kernel.parameters)
      problem = "it takes " + std::string(own) + ", and the plan gives it " + kernel.parameters;
    if (problem.empty()) return;
    dlclose(library_);
    ThrowValueError(what + problem);
  }
  LoadedObject(LoadedObject&& other) noexcept
      : library_(std::exchange(other.library_, nullptr)), entry_(other.entry_) {}
  ~LoadedObject() {
    if (library_ != nullptr) dlclose(library_);
  }

  Entry entry() const { return entry_; }

 private:
  static bool WriteAll(int descriptor, const std::string& bytes) {
    for (size_t written = 0; written < bytes.size();) {
      const ssize_t count = write(descriptor, bytes.data() + written, bytes.size() - written);
      if (count <= 0) return false;
      written += static_cast<size_t>(count);
    }
    return true;
  }

  void* library_ = nullptr;
  Entry entry_ = nullptr;
};

struct HostAllocator {
  void AllocData(DLTensor* tensor) {
    const size_t bytes = tvm::ffi::GetDataSize(*tensor);
    tensor->data = std::aligned_alloc(256, (bytes / 256 + 1) * 256);
    if (tensor->data == nullptr) ThrowRuntimeError("out of memory: " + std::to_string(bytes) + " bytes");
  }
  void FreeData(DLTensor* tensor) { std::free(tensor->data); }
};

class HostBackend : public Backend {
 public:
  HostBackend(const std::string& fusion, const std::vector<KernelObject>& kernels) : fusion_(fusion) {
    for (const KernelObject& kernel : kernels) {
      objects_.emplace_back(fusion, kernel);
      names_.push_back(kernel.name);
    }
  }

  DLDeviceType device_type() const override { return kDLCPU; }
  DLDevice CurrentDevice() override { return {kDLCPU, 0}; }
  void* EnterDevice(int) override { return nullptr; }
  void LeaveDevice(void*) override {}

  void Launch(int, const LaunchRequest* requests, size_t count, Repeated*, void*) override {
    for (size_t i = 0; i < count; ++i) {
      const LaunchRequest& request = requests[i];
      const int32_t code =
          objects_[request.kernel].entry()(request.grid, request.block, request.shared_bytes, request.args);
      if (code != 0) {
        ThrowRuntimeError(fusion_ + ": kernel " + names_[request.kernel] + ": failed with code " +
                          std::to_string(code));
      }
    }
  }

  int64_t ScratchBytes(int, const Product&, const Operands&) override { return 0; }

  void Multiply(int, const Product& product, const Operands& operands, void*, void*) override {
    MultiplyOnHost(product, operands);
  }

  tvm::ffi::Tensor Allocate(tvm::ffi::ShapeView shape, DLDataType dtype, DLDevice device) override {
    return tvm::ffi::Tensor::FromNDAlloc(HostAllocator(), shape, dtype, device);
  }

 private:
  std::string fusion_;
  std::vector<std::string> names_;
  std::vector<LoadedObject> objects_;
};

}  // namespace

std::unique_ptr<Backend> MakeHostBackend(const std::string& fusion,
                                         const std::vector<KernelObject>& kernels) {
  return std::make_unique<HostBackend>(fusion, kernels);
}

}  // namespace fusebuild
