#include "cuda_driver.h"

#include <dlfcn.h>

#include <map>
#include <mutex>

#include "error.h"

namespace fusebuild::cuda {
namespace {

template <typename F>
void Find(void* library, const char* symbol, F* function) {
  *function = reinterpret_cast<F>(dlsym(library, symbol));
  if (*function == nullptr) ThrowRuntimeError(std::string("the CUDA driver is too old: it has no ") + symbol);
}

Driver LoadDriver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) ThrowRuntimeError(std::string("the CUDA driver cannot be loaded: ") + dlerror());
  Driver driver;
  Find(library, "cuInit", &driver.cuInit);
  Find(library, "cuGetErrorName", &driver.cuGetErrorName);
  Find(library, "cuDriverGetVersion", &driver.cuDriverGetVersion);
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
  Find(library, "cuMemAlloc_v2", &driver.cuMemAlloc);
  Find(library, "cuMemFree_v2", &driver.cuMemFree);
  Find(library, "cuMemsetD8Async", &driver.cuMemsetD8Async);
  Find(library, "cuMemcpyDtoDAsync_v2", &driver.cuMemcpyDtoDAsync);
  if (driver.cuInit(0) != kSuccess) ThrowRuntimeError("the CUDA driver finds no usable device");
  return driver;
}

}  // namespace

const Driver& GetDriver() {
  static const Driver driver = LoadDriver();  // when it throws, the next call tries again
  return driver;
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
