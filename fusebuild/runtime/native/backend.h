// Where kernels run: a CUDA device through the driver API, or the CPU for the host target.
#pragma once

#include <tvm/ffi/container/tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "product.h"

namespace fusebuild {

/// The compiled object of one kernel: a cubin, or a shared object for the host.
struct KernelObject {
  std::string name;
  std::string bytes;
  std::string parameters;  // the types of the arguments that the plan gives it, as "p8i8f4"
  bool uses_shared;        // may need more dynamic shared memory than a kernel may use by default
};

/// One launch of kernel `kernel` (as loaded) with its arguments: `args[i]` points to the i-th, and all lie
/// side by side, 8 bytes each.
struct LaunchRequest {
  int kernel;
  const int64_t* grid;
  const int32_t* block;
  int64_t shared_bytes;
  int64_t cluster;  // blocks that run together, neighbours along y
  void** args;
  size_t num_args;
  bool overlaps;  // may begin before what is before it on the stream has ended
};

/// What a backend keeps of launches that come again, with other arguments but otherwise the same. Many
/// threads may use it at once.
class Repeated {
 public:
  virtual ~Repeated() = default;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual DLDeviceType device_type() const = 0;

  /// Throws ForkError where this process cannot use the backend any more.
  virtual void CheckProcess() const {}

  /// The device of a call that names none by its tensors.
  virtual DLDevice CurrentDevice() = 0;

  /// The multiprocessors of `device`, of which grids are made; the host has one.
  virtual int64_t Multiprocessors(int) { return 1; }

  /// Makes the calling thread ready to launch on `device`; LeaveDevice undoes it with the token.
  virtual void* EnterDevice(int device) = 0;
  virtual void LeaveDevice(void* token) = 0;

  /// Something to keep of launches that may come again; null where there is nothing to gain.
  virtual std::unique_ptr<Repeated> Repeat() { return nullptr; }

  /// Runs the launches one after the other on `device`, which the thread has entered, after all work before
  /// them on `stream`. A launch that overlaps waits for what is before it by itself; a backend may
  /// ignore that it could begin earlier. `repeated` is null, or was made by Repeat for these launches.
  virtual void Launch(int device, const LaunchRequest* requests, size_t count, Repeated* repeated,
                      void* stream) = 0;

  /// Bytes of memory that Multiply needs on `device` besides the operands.
  virtual int64_t ScratchBytes(int device, const Product& product, const Operands& operands) = 0;

  /// Computes a matrix product after all work before it on `stream`. `scratch` has ScratchBytes and starts at
  /// a multiple of 256.
  virtual void Multiply(int device, const Product& product, const Operands& operands, void* scratch,
                        void* stream) = 0;

  /// Memory for a tensor when the caller brought no allocator.
  virtual tvm::ffi::Tensor Allocate(tvm::ffi::ShapeView shape, DLDataType dtype, DLDevice device) = 0;
};

/// Throws ValueError when an object cannot be loaded. `fusion` names the plan in messages.
std::unique_ptr<Backend> MakeHostBackend(const std::string& fusion, const std::vector<KernelObject>& kernels);

/// `target` is "sm_90" or the like. Needs the driver (RuntimeError without), but no device yet. `multiplies`
/// says whether there will be matrix products; `libraries` are copies of cuBLASLt that they may use.
std::unique_ptr<Backend> MakeCudaBackend(const std::string& fusion, const std::string& target,
                                         const std::vector<KernelObject>& kernels, bool multiplies,
                                         const std::vector<std::string>& libraries);

/// 90 for compute capability 9.0 of the thread's current CUDA device (the first, when none is current).
/// RuntimeError without a driver or device.
int CurrentComputeCapability();

/// How many CUDA devices this process sees. RuntimeError without a driver or device.
int DeviceCount();

}  // namespace fusebuild
