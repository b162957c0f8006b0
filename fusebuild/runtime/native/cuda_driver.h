// The part of the CUDA driver API that the executor calls, found in libcuda.so.1 on first use. Neither CUDA's
// headers nor its libraries are needed to build; names, types and numbers are those of cuda.h, which keeps
// them stable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace fusebuild::cuda {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;  // as cuda.h spells it
using CUcontext = struct CUctx_st*;
using CUfunction = struct CUfunc_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphExec = struct CUgraphExec_st*;
using CUgraphNode = struct CUgraphNode_st*;
using CUkernel = struct CUkern_st*;
using CUlibrary = struct CUlib_st*;
using CUstream = struct CUstream_st*;

constexpr CUresult kSuccess = 0;
constexpr CUresult kNotInitialized = 3;     // what cuInit says in a forked process, and nowhere else
constexpr int kDeviceMajor = 75;            // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
constexpr int kDeviceMinor = 76;            // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
constexpr int kDeviceMultiprocessors = 16;  // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
constexpr int kDeviceMaxSharedOptin = 97;   // CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
constexpr int kKernelStaticShared = 1;      // CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
constexpr int kKernelMaxDynamicShared = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
constexpr int kKernelClusterWidth = 11;     // CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, then HEIGHT and DEPTH
constexpr int kKernelNonPortableCluster = 14;  // CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
constexpr int kCaptureModeRelaxed = 2;         // CU_STREAM_CAPTURE_MODE_RELAXED
constexpr unsigned kStreamNonBlocking = 1;     // CU_STREAM_NON_BLOCKING
constexpr int kLaunchCluster = 4;              // CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
constexpr int kLaunchOverlaps = 6;             // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION

/// Of the attributes' values only integers are needed: up to three.
struct CUlaunchAttribute {
  int id;
  alignas(8) int value[3];
  char rest_of_value[52];
};
static_assert(sizeof(CUlaunchAttribute) == 72);

struct CUlaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  CUstream stream;
  CUlaunchAttribute* attributes;
  unsigned num_attributes;
};

/// CUDA_KERNEL_NODE_PARAMS of cuda.h's second version.
struct CUkernelNodeParams {
  CUfunction function;
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  void** args;
  void** extra;
  CUkernel kernel;
  CUcontext context;
};

/// CUDA_MEMCPY2D of cuda.h, for rows in device memory.
struct CUmemcpy2D {
  size_t from_x = 0, from_y = 0;
  int from_type = 2;  // CU_MEMORYTYPE_DEVICE
  const void* from_host = nullptr;
  CUdeviceptr from = 0;
  void* from_array = nullptr;
  size_t from_pitch = 0, to_x = 0, to_y = 0;
  int to_type = 2;
  void* to_host = nullptr;
  CUdeviceptr to = 0;
  void* to_array = nullptr;
  size_t to_pitch = 0, bytes = 0, rows = 0;
};

/// The driver's functions; each member is called as in cuda.h.
struct Driver {
  CUresult (*cuInit)(unsigned);
  CUresult (*cuGetErrorName)(CUresult, const char**);
  CUresult (*cuDriverGetVersion)(int*);
  CUresult (*cuDeviceGetCount)(int*);
  CUresult (*cuDeviceGet)(CUdevice*, int);
  CUresult (*cuDeviceGetAttribute)(int*, int, CUdevice);
  CUresult (*cuDevicePrimaryCtxRetain)(CUcontext*, CUdevice);
  CUresult (*cuCtxGetCurrent)(CUcontext*);
  CUresult (*cuCtxGetDevice)(CUdevice*);
  CUresult (*cuCtxPushCurrent)(CUcontext);
  CUresult (*cuCtxPopCurrent)(CUcontext*);
  CUresult (*cuThreadExchangeStreamCaptureMode)(int*);
  CUresult (*cuLibraryLoadData)(CUlibrary*, const void*, void*, void**, unsigned, void*, void**, unsigned);
  CUresult (*cuLibraryGetKernel)(CUkernel*, CUlibrary, const char*);
  CUresult (*cuKernelGetFunction)(CUfunction*, CUkernel);
  CUresult (*cuKernelGetAttribute)(int*, int, CUkernel, CUdevice);
  CUresult (*cuKernelSetAttribute)(int, int, CUkernel, CUdevice);
  CUresult (*cuLaunchKernelEx)(const CUlaunchConfig*, CUfunction, void**, void**);
  CUresult (*cuStreamCreate)(CUstream*, unsigned);
  CUresult (*cuStreamDestroy)(CUstream);
  CUresult (*cuStreamIsCapturing)(CUstream, int*);
  CUresult (*cuStreamBeginCapture)(CUstream, int);
  CUresult (*cuStreamGetCaptureInfo)(CUstream, int*, unsigned long long*, CUgraph*, const CUgraphNode**,
                                     const void**, size_t*);
  CUresult (*cuStreamEndCapture)(CUstream, CUgraph*);
  CUresult (*cuGraphInstantiateWithFlags)(CUgraphExec*, CUgraph, unsigned long long);
  CUresult (*cuGraphExecKernelNodeSetParams)(CUgraphExec, CUgraphNode, const CUkernelNodeParams*);
  CUresult (*cuGraphLaunch)(CUgraphExec, CUstream);
  CUresult (*cuGraphExecDestroy)(CUgraphExec);
  CUresult (*cuGraphDestroy)(CUgraph);
  CUresult (*cuMemAlloc)(CUdeviceptr*, size_t);
  CUresult (*cuMemFree)(CUdeviceptr);
  CUresult (*cuMemsetD8Async)(CUdeviceptr, unsigned char, size_t, CUstream);
  CUresult (*cuMemcpyDtoDAsync)(CUdeviceptr, CUdeviceptr, size_t, CUstream);
  CUresult (*cuMemcpy2DAsync)(const CUmemcpy2D*, CUstream);
};

/// The driver, initialized; RuntimeError when it is missing, too old or finds no device. Thread-safe. The
/// process must not be a forked one.
const Driver& GetDriver();

/// The version of CUDA that the driver is for: 12030 for 12.3, which ShowVersion calls "CUDA 12.3".
int DriverVersion();
std::string ShowVersion(int version);

/// Whether this process was forked from one in which GetDriver had been called: no call of the driver works.
bool IsForked();

/// Throws ForkError where IsForked(); before anything else, since a lock that another thread held when the
/// process was forked stays locked.
void RefuseForked();

/// "CUDA_ERROR_INVALID_VALUE".
std::string ErrorName(CUresult code);

/// Throws RuntimeError "<what>: <call> failed: CUDA_ERROR_…" unless `code` is success.
void Check(CUresult code, const char* call, const std::string& what);

/// Primary context of `device`, retained once for the life of the process (other libraries hold it too).
CUcontext PrimaryContext(CUdevice device);

/// Lets a thread that captures a graph do what capture forbids but does not concern it, such as loading code.
class RelaxedCapture {
 public:
  RelaxedCapture() { GetDriver().cuThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedCapture() { GetDriver().cuThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  int mode_ = kCaptureModeRelaxed;
};

}  // namespace fusebuild::cuda
