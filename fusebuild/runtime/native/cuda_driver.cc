#include "cuda_driver.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <map>
#include <mutex>

#include "error.h"

namespace fusebuild::cuda {
namespace {

std::string VersionIn(void* library) {
  const auto get = reinterpret_cast<CUresult (*)(int*)>(dlsym(library, "cuDriverGetVersion"));
  int version = 0;
  return get != nullptr && get(&version) == kSuccess ? ShowVersion(version) : "an unknown CUDA";
}

template <typename F>
void Find(void* library, const char* symbol, F* function) {
  *function = reinterpret_cast<F>(dlsym(library, symbol));
  if (*function != nullptr) return;
  ThrowRuntimeError("the CUDA driver is too old: it is for " + VersionIn(library) + " and has no " + symbol +
                    "; one for CUDA 12.3 or newer is needed");
}

std::atomic<bool> initialized{false}, forked{false};

/// Initializes the driver, from where on processes that are forked know it.
void Initialize(const Driver& driver) {
  static const int watched = pthread_atfork(nullptr, nullptr, [] { forked = initialized.load(); });
  if (watched != 0) ThrowRuntimeError("out of memory");
  initialized = true;
  const CUresult code = driver.cuInit(0);
  if (code == kSuccess) return;
  initialized = false;
  if (code == kNotInitialized) ThrowForkError();  // somebody else had initialized it
  const char* name = nullptr;
  driver.cuGetErrorName(code, &name);
  ThrowRuntimeError(std::string("the CUDA driver finds no usable device: ") +
                    (name != nullptr ? name : std::to_string(code)));
}

Driver LoadDriver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) ThrowRuntimeError(std::string("the CUDA driver cannot be loaded: ") + dlerror());
  Driver driver;
  Find(library, "cuInit", &driver.cuInit);
  Find(library, "cuGetErrorName", &driver.cuGetErrorName);
  Find(library, "cuDriverGetVersion", &driver.cuDriverGetVersion);
  Find(library, "cuDeviceGetCount", &driver.cuDeviceGetCount);
  Find(library, "cuDeviceGet", &driver.cuDeviceGet);
  Find(library, "cuDeviceGetAttribute", &driver.cuDeviceGetAttribute);
  Find(library, "cuDevicePrimaryCtxRetain", &driver.cuDevicePrimaryCtxRetain);
  Find(library, "cuCtxGetCurrent", &driver.cuCtxGetCurrent);
  Find(library, "cuCtxGetDevice", &driver.cuCtxGetDevice);
  Find(library, "cuCtxPushCurrent_v2", &driver.cuCtxPushCurrent);
  Find(library, "cuCtxPopCurrent_v2", &driver.cuCtxPopCurrent);
  Find(library, "cuThreadExchangeStreamCaptureMode", &driver.cuThreadExchangeStreamCaptureMode);
  Find(library, "cuLibraryLoadData", &driver.cuLibraryLoadData);
  Find(library, "cuLibraryGetKernel", &driver.cuLibraryGetKernel);
  Find(library, "cuKernelGetFunction", &driver.cuKernelGetFunction);
  Find(library, "cuKernelGetAttribute", &driver.cuKernelGetAttribute);
  Find(library, "cuKernelSetAttribute", &driver.cuKernelSetAttribute);
  Find(library, "cuLaunchKernelEx", &driver.cuLaunchKernelEx);
  Find(library, "cuStreamCreate", &driver.cuStreamCreate);
  Find(library, "cuStreamDestroy_v2", &driver.cuStreamDestroy);
  Find(library, "cuStreamIsCapturing", &driver.cuStreamIsCapturing);
  Find(library, "cuStreamBeginCapture_v2", &driver.cuStreamBeginCapture);
  Find(library, "cuStreamGetCaptureInfo_v3", &driver.cuStreamGetCaptureInfo);
  Find(library, "cuStreamEndCapture", &driver.cuStreamEndCapture);
  Find(library, "cuGraphInstantiateWithFlags", &driver.cuGraphInstantiateWithFlags);
  Find(library, "cuGraphExecKernelNodeSetParams_v2", &driver.cuGraphExecKernelNodeSetParams);
  Find(library, "cuGraphLaunch", &driver.cuGraphLaunch);
  Find(library, "cuGraphExecDestroy", &driver.cuGraphExecDestroy);
  Find(library, "cuGraphDestroy", &driver.cuGraphDestroy);
  Find(library, "cuMemAlloc_v2", &driver.cuMemAlloc);
  Find(library, "cuMemFree_v2", &driver.cuMemFree);
  Find(library, "cuMemsetD8Async", &driver.cuMemsetD8Async);
  Find(library, "cuMemcpyDtoDAsync_v2", &driver.cuMemcpyDtoDAsync);
  Find(library, "cuMemcpy2DAsync_v2", &driver.cuMemcpy2DAsync);
  Initialize(driver);
  return driver;
}

}  // namespace

const Driver& GetDriver() {
  static const Driver driver = LoadDriver();  // when it throws, the next call tries again
  return driver;
}

int DriverVersion() {
  int version = 0;
  Check(GetDriver().cuDriverGetVersion(&version), "cuDriverGetVersion", "the CUDA driver");
  return version;
}

std::string ShowVersion(int version) {
  return "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

bool IsForked() { return forked.load(std::memory_order_relaxed); }

void RefuseForked() {
  if (IsForked()) ThrowForkError();
}

std::string ErrorName(CUresult code) {
  const char* name = nullptr;
  GetDriver().cuGetErrorName(code, &name);
  return name != nullptr ? name : "CUDA error " + std::to_string(code);
}

void Check(CUresult code, const char* call, const std::string& what) {
  if (code != kSuccess) ThrowRuntimeError(what + ": " + call + " failed: " + ErrorName(code));
}

CUcontext PrimaryContext(CUdevice device) {
  static std::mutex mutex;
  static std::map<CUdevice, CUcontext>* const contexts = new std::map<CUdevice, CUcontext>();
  std::lock_guard lock(mutex);
  auto found = contexts->find(device);
  if (found != contexts->end()) return found->second;
  CUcontext context = nullptr;
  Check(GetDriver().cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain",
        "cuda:" + std::to_string(device));
  contexts->emplace(device, context);
  return context;
}

}  // namespace fusebuild::cuda
