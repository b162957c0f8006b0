// The host backend: each kernel is a shared object with one entry that runs a whole grid.
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "backend.h"
#include "bind.h"
#include "error.h"
#include "fusebuild/host/stacks.h"

namespace fusebuild {
namespace {

using Entry = int32_t (*)(const int64_t* grid, const int32_t* block, int64_t shared_bytes, int64_t cluster,
                          void** args, const host::Stacks* stacks);

/// What all kernels that this thread launches run on. A kernel's library could keep no stacks of its own
/// without keeping itself loaded.
thread_local host::StackPool thread_stacks;

/// Another spelling of `/proc/self/fd/<descriptor>` for each call: "//" and "/./" spell the bits of a
/// counter.
///
/// glibc knows libraries by the path they were opened with, and it keeps one that is loaded. A path that came
/// back would name the older kernel.
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
    const std::string symbol = "fusebuild_host3_" + kernel.name;
    entry_ = reinterpret_cast<Entry>(dlsym(library_, symbol.c_str()));
    thread_local_bytes_ = ThreadLocalBytes(kernel.bytes);
    const std::string problem = Problem(kernel, symbol);
    if (problem.empty()) return;
    dlclose(library_);
    ThrowValueError(what + problem);
  }
  LoadedObject(LoadedObject&& other) noexcept
      : library_(std::exchange(other.library_, nullptr)),
        entry_(other.entry_),
        thread_local_bytes_(other.thread_local_bytes_) {}
  ~LoadedObject() {
    if (library_ != nullptr) dlclose(library_);
  }

  int32_t Run(const LaunchRequest& request) const {
    if (!HasThreadLocals()) return host::kOutOfMemory;
    const host::Stacks stacks = thread_stacks.lend();
    const int32_t code =
        entry_(request.grid, request.block, request.shared_bytes, request.cluster, request.args, &stacks);
    thread_stacks.idle();
    return code;
  }

 private:
  /// Why `kernel` cannot be run by `symbol`; empty where it can.
  std::string Problem(const KernelObject& kernel, const std::string& symbol) const {
    if (entry_ == nullptr) {
      const bool is_older = dlsym(library_, ("fusebuild_host_" + kernel.name).c_str()) != nullptr ||
                            dlsym(library_, ("fusebuild_host2_" + kernel.name).c_str()) != nullptr;
      return is_older ? "the shared object was made by an older fusebuild; compile it again"
                      : "the shared object has no symbol " + symbol;
    }
    const auto* own = static_cast<const char*>(dlsym(library_, (symbol + "_parameters").c_str()));
    if (own == nullptr) return "the shared object has no symbol " + symbol + "_parameters";
    if (own == kernel.parameters) return "";
    return "it takes " + std::string(own) + ", and the plan gives it " + kernel.parameters;
  }

  /// How many bytes of thread-local variables the object has for each thread, shared memory above all.
  static size_t ThreadLocalBytes(const std::string& bytes) {
    ElfW(Ehdr) header;
    if (bytes.size() < sizeof(header)) return 0;
    std::memcpy(&header, bytes.data(), sizeof(header));
    size_t found = 0;
    for (size_t i = 0; i < header.e_phnum; ++i) {
      ElfW(Phdr) segment;
      const size_t at = header.e_phoff + i * sizeof(segment);
      if (at > bytes.size() || bytes.size() - at < sizeof(segment)) break;
      std::memcpy(&segment, bytes.data() + at, sizeof(segment));
      if (segment.p_type == PT_TLS) found += segment.p_memsz + segment.p_align;
    }
    return found;
  }

  /// Whether this thread has the object's thread-local variables or room for them: glibc ends the process
  /// where it finds none when they are first reached.
  bool HasThreadLocals() const {
    void* own = nullptr;
    if (thread_local_bytes_ == 0) return true;
    if (dlinfo(library_, RTLD_DI_TLS_DATA, &own) == 0 && own != nullptr) return true;
    void* room = std::malloc(thread_local_bytes_ + kThreadLocalSlack);
    std::free(room);
    return room != nullptr;
  }

  /// What glibc allocates besides.
  static constexpr size_t kThreadLocalSlack = 64 * 1024;

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
  size_t thread_local_bytes_ = 0;
};

struct HostAllocator {
  void AllocData(DLTensor* tensor) {
    const size_t bytes = tvm::ffi::GetDataSize(*tensor);
    tensor->data = std::aligned_alloc(256, (bytes / 256 + 1) * 256);
    if (tensor->data == nullptr) ThrowMemoryError("out of memory: " + std::to_string(bytes) + " bytes");
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
      const int32_t code = objects_[request.kernel].Run(request);
      if (code == host::kOutOfMemory) {
        ThrowMemoryError(fusion_ + ": kernel " + names_[request.kernel] +
                         ": there is no memory for its threads' stacks and shared memory");
      }
      if (code == host::kInvalidValue) {
        const int64_t block[3] = {request.block[0], request.block[1], request.block[2]};
        ThrowValueError(fusion_ + ": kernel " + names_[request.kernel] + ": a grid " +
                        ShowList(request.grid, 3) + " of blocks " + ShowList(block, 3) +
                        " cannot be launched: it is too large, or has no whole clusters");
      }
      if (code == host::kMisused) {
        ThrowRuntimeError(
            fusion_ + ": kernel " + names_[request.kernel] +
            ": a thread did what no GPU allows, such as an access that is not aligned; the message "
            "on stderr says what");
      }
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
