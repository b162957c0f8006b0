// The CUDA backend: cubins as libraries, whose kernels run in any context, launched on the caller's stream.
#include <array>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>

#include "backend.h"
#include "cublaslt.h"
#include "cuda_driver.h"
#include "error.h"
#include "launch_graphs.h"

namespace fusebuild {
namespace {

using namespace cuda;  // the driver's own names, which all start with CU, cu or k

/// Loads a cubin once per process, by its bytes. Libraries are never unloaded: a captured graph, or a kernel
/// still running, may outlive the plan, and loading the same artifact again costs nothing.
CUlibrary LoadLibrary(const std::string& fusion, const std::string& target, const KernelObject& kernel) {
  static std::mutex mutex;
  static std::map<std::string, CUlibrary>* const libraries = new std::map<std::string, CUlibrary>();
  std::lock_guard lock(mutex);
  auto found = libraries->find(kernel.bytes);
  if (found != libraries->end()) return found->second;
  CUlibrary library = nullptr;
  const CUresult code =
      GetDriver().cuLibraryLoadData(&library, kernel.bytes.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (code != kSuccess) {
    ThrowValueError(fusion + ": kernel " + kernel.name + ": the cubin for " + target + " cannot be loaded: " +
                    ErrorName(code) + "; the driver is for " + ShowVersion(DriverVersion()));
  }
  libraries->emplace(kernel.bytes, library);
  return library;
}

struct Kernel {
  std::string name;
  CUkernel handle;
  bool uses_shared;
};

int DeviceAttribute(int attribute, CUdevice device) {
  int value = 0;
  Check(GetDriver().cuDeviceGetAttribute(&value, attribute, device), "cuDeviceGetAttribute",
        "cuda:" + std::to_string(device));
  return value;
}

CUdevice CurrentCudaDevice() {
  CUcontext context = nullptr;
  CUdevice device = 0;
  const Driver& driver = GetDriver();
  if (driver.cuCtxGetCurrent(&context) != kSuccess || context == nullptr) return 0;
  return driver.cuCtxGetDevice(&device) == kSuccess ? device : 0;
}

int ComputeCapability(CUdevice device) {
  return 10 * DeviceAttribute(kDeviceMajor, device) + DeviceAttribute(kDeviceMinor, device);
}

/// 90 for "sm_90", "sm_90a" and "sm_90f".
int CapabilityOf(const std::string& target) { return std::atoi(target.c_str() + 3); }

/// Whether a kernel for `target` may begin before the one before it has ended: devices can from sm_90 on, and
/// drivers from 12.3 on also when a graph is captured.
bool CanOverlap(const std::string& target) { return CapabilityOf(target) >= 90 && DriverVersion() >= 12030; }

/// Makes a context current while it lives, unless it already is. It does not throw, since memory is freed
/// under it, perhaps when the driver has already shut down; should it fail, the next driver call says so.
class ContextScope {
 public:
  explicit ContextScope(CUcontext context) {
    CUcontext current = nullptr;
    GetDriver().cuCtxGetCurrent(&current);
    pushed_ = current != context && GetDriver().cuCtxPushCurrent(context) == kSuccess;
  }
  ~ContextScope() {
    CUcontext popped = nullptr;
    if (pushed_) GetDriver().cuCtxPopCurrent(&popped);
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  bool pushed_ = false;
};

/// Plain device memory. cuMemFree waits for the work that uses it.
struct CudaAllocator {
  void AllocData(DLTensor* tensor) {
    const size_t bytes = tvm::ffi::GetDataSize(*tensor);
    CUdeviceptr address = 0;
    if (bytes > 0) {
      ContextScope scope(PrimaryContext(tensor->device.device_id));
      Check(GetDriver().cuMemAlloc(&address, bytes), "cuMemAlloc", std::to_string(bytes) + " bytes");
    }
    tensor->data = reinterpret_cast<void*>(address);
  }
  void FreeData(DLTensor* tensor) {
    if (tensor->data == nullptr || IsForked()) return;  // the memory is the parent's
    ContextScope scope(PrimaryContext(tensor->device.device_id));
    GetDriver().cuMemFree(reinterpret_cast<CUdeviceptr>(tensor->data));
  }
};

class CudaBackend : public Backend {
 public:
  CudaBackend(const std::string& fusion, const std::string& target, const std::vector<KernelObject>& objects,
              bool multiplies, const std::vector<std::string>& libraries)
      : fusion_(fusion),
        target_(target),
        can_overlap_(CanOverlap(target)),
        multiplies_(multiplies),
        libraries_(libraries) {
    for (const KernelObject& object : objects) {
      CUkernel handle = nullptr;
      const CUlibrary library = LoadLibrary(fusion, target, object);
      if (GetDriver().cuLibraryGetKernel(&handle, library, object.name.c_str()) != kSuccess) {
        ThrowValueError(fusion + ": kernel " + object.name + ": the cubin has no entry of that name");
      }
      kernels_.push_back({object.name, handle, object.uses_shared});
    }
  }

  DLDeviceType device_type() const override { return kDLCUDA; }
  void CheckProcess() const override { RefuseForked(); }
  DLDevice CurrentDevice() override { return {kDLCUDA, CurrentCudaDevice()}; }

  // Asked once: a call would take longer to ask the driver than to launch.
  int64_t Multiprocessors(int device) override {
    std::atomic<int>& known = DeviceAt(device).multiprocessors;
    if (known.load(std::memory_order_relaxed) == 0)
      known.store(DeviceAttribute(kDeviceMultiprocessors, device), std::memory_order_relaxed);
    return known.load(std::memory_order_relaxed);
  }

  void* EnterDevice(int device) override {
    Device& state = DeviceAt(device);
    if (!state.ready.load(std::memory_order_acquire)) Prepare(device, &state);
    CUcontext current = nullptr;
    GetDriver().cuCtxGetCurrent(&current);
    if (current == state.context) return nullptr;
    Check(GetDriver().cuCtxPushCurrent(state.context), "cuCtxPushCurrent", fusion_);
    return state.context;
  }

  void LeaveDevice(void* token) override {
    CUcontext popped = nullptr;
    if (token != nullptr) GetDriver().cuCtxPopCurrent(&popped);
  }

  std::unique_ptr<Repeated> Repeat() override { return std::make_unique<LaunchGraphs>(&graphs_); }

  void Launch(int device, const LaunchRequest* requests, size_t count, Repeated* repeated,
              void* stream) override {
    const CUstream on = static_cast<CUstream>(stream);
    auto launch_one = [this, device](const LaunchRequest& request, CUstream stream) {
      return LaunchOne(device, request, stream);
    };
    if (repeated != nullptr && static_cast<LaunchGraphs*>(repeated)->Launch(
                                   device, devices_[device].functions, requests, count, on, launch_one))
      return;
    for (size_t i = 0; i < count; ++i) {
      const CUresult code = LaunchOne(device, requests[i], on);
      if (code != kSuccess) ThrowLaunchError(requests[i], code);
    }
  }

  // Choosing an algorithm, and the first launch of a kernel of the library, may load code.
  int64_t ScratchBytes(int device, const Product& product, const Operands& operands) override {
    const RelaxedCapture relaxed;
    return devices_[device].cublas->ScratchBytes(product, operands, fusion_);
  }

  void Multiply(int device, const Product& product, const Operands& operands, void* scratch,
                void* stream) override {
    const RelaxedCapture relaxed;
    devices_[device].cublas->Multiply(product, operands, scratch, stream, fusion_);
  }

  tvm::ffi::Tensor Allocate(tvm::ffi::ShapeView shape, DLDataType dtype, DLDevice device) override {
    return tvm::ffi::Tensor::FromNDAlloc(CudaAllocator(), shape, dtype, device);
  }

 private:
  static constexpr int kMaxDevices = 64;

  struct Device {
    std::atomic<bool> ready{false};
    std::atomic<int> multiprocessors{0};  // 0 until somebody asks
    CUcontext context = nullptr;
    std::vector<CUfunction> functions;  // the kernels in `context`: with a CUkernel each launch looks it up
    CublasLt* cublas = nullptr;         // where there are matrix products
  };

  Device& DeviceAt(int device) {
    if (device < 0 || device >= kMaxDevices)
      ThrowValueError(fusion_ + ": no device cuda:" + std::to_string(device));
    return devices_[device];
  }

  // Once per device: checks that the cubins fit it, loads them now rather than at a launch (which may be
  // under graph capture), and lifts the limits that a kernel must ask to have lifted.
  void Prepare(int device, Device* state) {
    std::lock_guard lock(mutex_);
    if (state->ready.load(std::memory_order_relaxed)) return;
    const RelaxedCapture relaxed;
    CheckCapability(device);
    state->context = PrimaryContext(device);
    const ContextScope scope(state->context);
    if (multiplies_) state->cublas = &CublasLt::Of(device, libraries_, fusion_);
    const int max_shared = DeviceAttribute(kDeviceMaxSharedOptin, device);
    state->functions.assign(kernels_.size(), nullptr);  // anew, should an earlier attempt have failed midway
    for (size_t i = 0; i < kernels_.size(); ++i) {
      const Kernel& kernel = kernels_[i];
      const std::string what = fusion_ + ": kernel " + kernel.name;
      Check(GetDriver().cuKernelGetFunction(&state->functions[i], kernel.handle), "cuKernelGetFunction",
            what);
      if (kernel.uses_shared) {
        const int limit = max_shared - KernelAttribute(kKernelStaticShared, kernel, device);
        SetKernelAttribute(kKernelMaxDynamicShared, limit, kernel, device);
      }
      int cluster_blocks = 1;  // a kernel compiled without clusters has zeros here
      for (int dim = 0; dim < 3; ++dim)
        cluster_blocks *= KernelAttribute(kKernelClusterWidth + dim, kernel, device);
      if (cluster_blocks > 8) SetKernelAttribute(kKernelNonPortableCluster, 1, kernel, device);
    }
    state->ready.store(true, std::memory_order_release);
  }

  // A cubin for sm_XY runs on devices of capability X.Z with Z >= Y, one for sm_XYa on those of X.Y alone.
  void CheckCapability(int device) const {
    const int have = ComputeCapability(device), need = CapabilityOf(target_);
    if (target_.back() == 'a' ? have == need : have / 10 == need / 10 && have >= need) return;
    ThrowValueError(fusion_ + ": kernels for " + target_ + " cannot run on cuda:" + std::to_string(device) +
                    ", which is sm_" + std::to_string(have));
  }

  int KernelAttribute(int attribute, const Kernel& kernel, CUdevice device) const {
    int value = 0;
    Check(GetDriver().cuKernelGetAttribute(&value, attribute, kernel.handle, device), "cuKernelGetAttribute",
          fusion_ + ": kernel " + kernel.name);
    return value;
  }

  void SetKernelAttribute(int attribute, int value, const Kernel& kernel, CUdevice device) const {
    Check(GetDriver().cuKernelSetAttribute(attribute, value, kernel.handle, device), "cuKernelSetAttribute",
          fusion_ + ": kernel " + kernel.name);
  }

  CUresult LaunchOne(int device, const LaunchRequest& request, CUstream stream) const {
    CUlaunchAttribute attributes[2];
    unsigned count = 0;
    if (request.overlaps && can_overlap_) attributes[count++] = {kLaunchOverlaps, {1, 0, 0}, {}};
    if (request.cluster > 1)
      attributes[count++] = {kLaunchCluster, {1, static_cast<int>(request.cluster), 1}, {}};
    const CUlaunchConfig config = {
        {static_cast<unsigned>(request.grid[0]), static_cast<unsigned>(request.grid[1]),
         static_cast<unsigned>(request.grid[2])},
        {static_cast<unsigned>(request.block[0]), static_cast<unsigned>(request.block[1]),
         static_cast<unsigned>(request.block[2])},
        static_cast<unsigned>(request.shared_bytes),
        stream,
        attributes,
        count,
    };
    return GetDriver().cuLaunchKernelEx(&config, devices_[device].functions[request.kernel], request.args,
                                        nullptr);
  }

  [[noreturn]] void ThrowLaunchError(const LaunchRequest& request, CUresult code) const {
    auto show = [](const auto* dims) {
      return "(" + std::to_string(dims[0]) + ", " + std::to_string(dims[1]) + ", " + std::to_string(dims[2]) +
             ")";
    };
    ThrowRuntimeError(fusion_ + ": kernel " + kernels_[request.kernel].name + ": launch with grid " +
                      show(request.grid) + ", block " + show(request.block) + ", " +
                      std::to_string(request.shared_bytes) +
                      " bytes of dynamic shared memory failed: " + ErrorName(code));
  }

  const std::string fusion_, target_;
  const bool can_overlap_, multiplies_;
  const std::vector<std::string> libraries_;
  std::vector<Kernel> kernels_;
  std::array<Device, kMaxDevices> devices_;
  std::mutex mutex_;
  std::atomic<int> graphs_{0};  // how many there are
};

}  // namespace

std::unique_ptr<Backend> MakeCudaBackend(const std::string& fusion, const std::string& target,
                                         const std::vector<KernelObject>& kernels, bool multiplies,
                                         const std::vector<std::string>& libraries) {
  RefuseForked();
  return std::make_unique<CudaBackend>(fusion, target, kernels, multiplies, libraries);
}

int CurrentComputeCapability() {
  RefuseForked();
  return ComputeCapability(CurrentCudaDevice());
}

int DeviceCount() {
  RefuseForked();
  int count = 0;
  Check(GetDriver().cuDeviceGetCount(&count), "cuDeviceGetCount", "the CUDA driver");
  return count;
}

}  // namespace fusebuild
