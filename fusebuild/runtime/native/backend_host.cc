// The host backend: each kernel is a shared object with one entry that runs a whole grid.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "backend.h"
#include "error.h"

namespace fusebuild {
namespace {

using Entry = int32_t (*)(const int64_t* grid, const int32_t* block, int64_t shared_bytes, void** args);

/// A shared object loaded from bytes in memory. Its descriptor stays open while it is loaded: glibc knows
/// libraries by path, and a descriptor number that came back would make it return an older library.
class LoadedObject {
 public:
  LoadedObject(const std::string& fusion, const KernelObject& kernel) {
    const std::string what = fusion + ": kernel " + kernel.name + ": ";
    descriptor_ = memfd_create(kernel.name.c_str(), MFD_CLOEXEC);
    if (descriptor_ < 0) ThrowRuntimeError(what + "cannot create a file in memory");
    for (size_t written = 0; written < kernel.bytes.size();) {
      const ssize_t count = write(descriptor_, kernel.bytes.data() + written, kernel.bytes.size() - written);
      if (count <= 0) Abandon(what + "cannot write a file in memory");
      written += static_cast<size_t>(count);
    }
    const std::string path = "/proc/self/fd/" + std::to_string(descriptor_);
    library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) Abandon(what + "the shared object cannot be loaded: " + dlerror());
    const std::string symbol = "fusebuild_host_" + kernel.name;
    entry_ = reinterpret_cast<Entry>(dlsym(library_, symbol.c_str()));
    if (entry_ == nullptr) Abandon(what + "the shared object has no symbol " + symbol);
  }
  LoadedObject(LoadedObject&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)),
        library_(std::exchange(other.library_, nullptr)),
        entry_(other.entry_) {}
  ~LoadedObject() { Close(); }

  Entry entry() const { return entry_; }

 private:
  [[noreturn]] void Abandon(std::string message) {
    Close();
    ThrowValueError(std::move(message));
  }

  void Close() {
    if (library_ != nullptr) dlclose(library_);
    if (descriptor_ >= 0) close(descriptor_);
    library_ = nullptr;
    descriptor_ = -1;
  }

  int descriptor_ = -1;
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

  void Launch(int index, const LaunchRequest& request, void*) override {
    const int32_t code =
        objects_[index].entry()(request.grid, request.block, request.shared_bytes, request.args);
    if (code != 0) {
      ThrowRuntimeError(fusion_ + ": kernel " + names_[index] + ": failed with code " + std::to_string(code));
    }
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
