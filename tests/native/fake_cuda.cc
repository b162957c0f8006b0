// The CUDA driver on the CPU, as its documentation has it, for what the runtime asks of it: launches run at
// once, those on a stream that is captured become a graph. A "cubin" is the path of a shared object with
// kernels for the host backend, a space, and how many arguments they take. It aborts where it is called as it
// must not be, such as in a process that did not initialize it, and guards a graph no better than the driver
// does: ThreadSanitizer shall see two threads that use one.
//
// In the environment, FAKE_CUDA_VERSION is the driver's version, FAKE_CUDA_CAPABILITY that of each device,
// FAKE_CUDA_INIT and FAKE_CUDA_LOAD are what cuInit and cuLibraryLoadData return.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

namespace {

constexpr int kInvalidValue = 1, kNotInitialized = 3, kNoDevice = 100, kNoBinary = 209, kUnknown = 999;
constexpr int kComputeCapabilityMajor = 75, kComputeCapabilityMinor = 76;
constexpr int kRelaxed = 2;

using Entry = int32_t (*)(const int64_t* grid, const int32_t* block, int64_t shared_bytes, int64_t cluster,
                          void** args, const void* stacks);

struct Kernel {
  Entry entry;
  size_t num_args;
};

struct Library {
  void* object;
  Kernel kernel;  // the only one, once it was asked for
};

struct Node {
  Kernel* kernel;
  int64_t grid[3];
  int32_t block[3];
  int64_t shared_bytes;
  std::vector<uint64_t> args;
};

struct Graph {
  std::vector<Node*> nodes;
};

struct Stream {
  Graph* captured = nullptr;
};

struct Executable {
  std::vector<Node*> of;  // the graph's, which name these
  std::vector<Node> nodes;
};

struct LaunchConfig {
  unsigned grid[3], block[3], shared_bytes;
  Stream* stream;
  void* attributes;
  unsigned num_attributes;
};

struct KernelNodeParams {
  Kernel* function;
  unsigned grid[3], block[3], shared_bytes;
  void** args;
  void** extra;
  void* kernel;
  void* context;
};

int contexts[2];  // their addresses are what counts
thread_local std::vector<void*> current;
thread_local int capture_mode = 0;
std::atomic<int> plain_launches{0}, graph_launches{0}, live{0};
std::atomic<const char*> failing{""};

void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "fake CUDA: %s\n", what);
  std::abort();
}

std::atomic<pid_t> owner{0};

/// Where cuInit has been called; after a fork the real driver may do anything.
void RequireOwner() { Require(owner == getpid(), "a call in a process that did not initialize it"); }

int Setting(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : otherwise;
}

/// 90 for 9.0; the text has one for each device, with a comma between.
int Capability(int device) {
  const char* text = std::getenv("FAKE_CUDA_CAPABILITY");
  if (text == nullptr) return 90;
  for (; device > 0 && std::strchr(text, ',') != nullptr; --device) text = std::strchr(text, ',') + 1;
  return std::atoi(text);
}

bool Fails(const char* name) { return std::strcmp(failing.load(), name) == 0; }

Node NodeOf(Kernel* kernel, const unsigned* grid, const unsigned* block, unsigned shared_bytes, void** args) {
  Node node{kernel, {}, {}, shared_bytes, {}};
  for (int dim = 0; dim < 3; ++dim) {
    node.grid[dim] = grid[dim];
    node.block[dim] = static_cast<int32_t>(block[dim]);
  }
  for (size_t i = 0; i < kernel->num_args; ++i) node.args.push_back(*static_cast<uint64_t*>(args[i]));
  return node;
}

int Run(Node* node) {
  std::vector<void*> args;
  for (uint64_t& arg : node->args) args.push_back(&arg);
  return node->kernel->entry(node->grid, node->block, node->shared_bytes, 1, args.data(), nullptr) == 0
             ? 0
             : kUnknown;
}

}  // namespace

/// CUDA_MEMCPY2D.
struct Rows {
  size_t from_x, from_y;
  int from_type;
  const void* from_host;
  unsigned long long from;
  void* from_array;
  size_t from_pitch, to_x, to_y;
  int to_type;
  void* to_host;
  unsigned long long to;
  void* to_array;
  size_t to_pitch, bytes, count;
};

extern "C" {

// For tests.

/// Lets calls of the driver's function `name` fail from now on; none for "".
void FakeCudaFail(const char* name) { failing = name; }
int FakeCudaPlainLaunches() { return plain_launches; }
int FakeCudaGraphLaunches() { return graph_launches; }
/// How many graphs and streams there are.
int FakeCudaLive() { return live; }

// The driver.

int cuInit(unsigned) {
  if (owner != 0 && owner != getpid()) return kNotInitialized;
  const int code = Setting("FAKE_CUDA_INIT", 0);
  if (code == 0) owner = getpid();
  return code;
}
int cuGetErrorName(int code, const char** name) {
  *name = code == kInvalidValue ? "CUDA_ERROR_INVALID_VALUE"
          : code == kNoDevice   ? "CUDA_ERROR_NO_DEVICE"
          : code == kNoBinary   ? "CUDA_ERROR_NO_BINARY_FOR_GPU"
                                : "CUDA_ERROR_UNKNOWN";
  return 0;
}
int cuDriverGetVersion(int* version) {
  *version = Setting("FAKE_CUDA_VERSION", 13000);
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = 2;
  return 0;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal < 2 ? 0 : kInvalidValue;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  RequireOwner();
  *value = attribute == kComputeCapabilityMajor   ? Capability(device) / 10
           : attribute == kComputeCapabilityMinor ? Capability(device) % 10
                                                  : 232448;
  return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = &contexts[device];
  return 0;
}
int cuCtxGetCurrent(void** context) {
  RequireOwner();
  *context = current.empty() ? nullptr : current.back();
  return 0;
}
int cuCtxGetDevice(int* device) {
  if (current.empty()) return kInvalidValue;
  *device = static_cast<int>(static_cast<int*>(current.back()) - contexts);
  return 0;
}
int cuCtxPushCurrent_v2(void* context) {
  RequireOwner();
  current.push_back(context);
  return 0;
}
int cuCtxPopCurrent_v2(void** context) {
  Require(!current.empty(), "no context is current");
  *context = current.back();
  current.pop_back();
  return 0;
}
int cuThreadExchangeStreamCaptureMode(int* mode) {
  RequireOwner();
  std::swap(*mode, capture_mode);
  return 0;
}
#ifndef FAKE_CUDA_IS_OLD
int cuLibraryLoadData(Library** library, const void* code, void*, void**, unsigned, void*, void**, unsigned) {
  RequireOwner();
  if (const int code = Setting("FAKE_CUDA_LOAD", 0)) return code;
  const std::string text = static_cast<const char*>(code);
  const size_t space = text.find(' ');
  void* object = dlopen(text.substr(0, space).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (object == nullptr) return kInvalidValue;
  *library = new Library{object, {nullptr, static_cast<size_t>(std::stoul(text.substr(space)))}};
  return 0;
}
#endif
int cuLibraryGetKernel(Kernel** kernel, Library* library, const char* name) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const std::string symbol = "fusebuild_host3_" + std::string(name);
  if (library->kernel.entry == nullptr)
    library->kernel.entry = reinterpret_cast<Entry>(dlsym(library->object, symbol.c_str()));
  *kernel = &library->kernel;
  return library->kernel.entry != nullptr ? 0 : kInvalidValue;
}
int cuKernelGetFunction(Kernel** function, Kernel* kernel) {
  Require(!current.empty(), "a function of no context");
  *function = kernel;
  return 0;
}
int cuKernelGetAttribute(int* value, int, Kernel*, int) {
  *value = 0;
  return 0;
}
int cuKernelSetAttribute(int, int, Kernel*, int) { return 0; }
int cuLaunchKernelEx(const LaunchConfig* config, Kernel* kernel, void** args, void**) {
  Require(!current.empty(), "a launch in no context");
  if (Fails("cuLaunchKernelEx")) return kUnknown;
  Node node = NodeOf(kernel, config->grid, config->block, config->shared_bytes, args);
  if (config->stream != nullptr && config->stream->captured != nullptr) {
    config->stream->captured->nodes.push_back(new Node(node));
    return 0;
  }
  ++plain_launches;
  return Run(&node);
}
int cuStreamCreate(Stream** stream, unsigned) {
  if (Fails("cuStreamCreate")) return kUnknown;
  *stream = new Stream();
  ++live;
  return 0;
}
int cuStreamDestroy_v2(Stream* stream) {
  Require(stream->captured == nullptr, "a stream that is captured is destroyed");
  delete stream;
  --live;
  return 0;
}
int cuStreamIsCapturing(Stream* stream, int* status) {
  RequireOwner();
  *status = stream != nullptr && stream->captured != nullptr;
  return 0;
}
int cuStreamBeginCapture_v2(Stream* stream, int mode) {
  Require(stream != nullptr && stream->captured == nullptr, "this stream cannot be captured");
  Require(mode == kRelaxed && capture_mode == kRelaxed,
          "capture could disturb, or be disturbed by, another one");
  if (Fails("cuStreamBeginCapture_v2")) return kUnknown;
  stream->captured = new Graph();
  ++live;
  return 0;
}
int cuStreamGetCaptureInfo_v3(Stream* stream, int* status, unsigned long long*, Graph**, Node* const** last,
                              void**, size_t* num_last) {
  if (Fails("cuStreamGetCaptureInfo_v3")) return kUnknown;
  const std::vector<Node*>& nodes = stream->captured->nodes;
  *status = 1;
  *num_last = nodes.empty() ? 0 : 1;
  if (!nodes.empty()) *last = &nodes.back();
  return 0;
}
int cuStreamEndCapture(Stream* stream, Graph** graph) {
  Require(stream->captured != nullptr, "this stream is not captured");
  *graph = stream->captured;
  stream->captured = nullptr;
  return 0;
}
int cuGraphInstantiateWithFlags(Executable** executable, Graph* graph, unsigned long long) {
  if (Fails("cuGraphInstantiateWithFlags")) return kUnknown;
  *executable = new Executable{graph->nodes, {}};
  for (const Node* node : graph->nodes) (*executable)->nodes.push_back(*node);
  ++live;
  return 0;
}
int cuGraphExecKernelNodeSetParams_v2(Executable* executable, Node* which, const KernelNodeParams* given) {
  if (Fails("cuGraphExecKernelNodeSetParams_v2")) return kUnknown;
  for (size_t i = 0; i < executable->nodes.size(); ++i) {
    if (executable->of[i] != which) continue;
    Node& node = executable->nodes[i];
    Node wanted = NodeOf(given->function, given->grid, given->block, given->shared_bytes, given->args);
    Require(node.kernel == wanted.kernel && std::memcmp(node.grid, wanted.grid, sizeof node.grid) == 0 &&
                std::memcmp(node.block, wanted.block, sizeof node.block) == 0 &&
                node.shared_bytes == wanted.shared_bytes,
            "a node shall become another launch");
    node.args = wanted.args;
    return 0;
  }
  return kInvalidValue;
}
int cuGraphLaunch(Executable* executable, Stream* stream) {
  Require(!current.empty(), "a launch in no context");
  Require(stream == nullptr || stream->captured == nullptr, "a graph in a graph is not of the fake");
  if (Fails("cuGraphLaunch")) return kUnknown;
  ++graph_launches;
  for (Node& node : executable->nodes) {
    if (const int code = Run(&node)) return code;
  }
  return 0;
}
int cuGraphExecDestroy(Executable* executable) {
  RequireOwner();
  delete executable;
  --live;
  return 0;
}
int cuGraphDestroy(Graph* graph) {
  RequireOwner();
  for (Node* node : graph->nodes) delete node;
  delete graph;
  --live;
  return 0;
}
int cuMemAlloc_v2(unsigned long long* address, size_t bytes) {
  *address = reinterpret_cast<unsigned long long>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  return *address != 0 ? 0 : kUnknown;
}
int cuMemFree_v2(unsigned long long address) {
  RequireOwner();
  std::free(reinterpret_cast<void*>(address));
  return 0;
}
int cuMemsetD8Async(unsigned long long address, unsigned char value, size_t bytes, Stream*) {
  std::memset(reinterpret_cast<void*>(address), value, bytes);
  return 0;
}
int cuMemcpy2DAsync_v2(const Rows* rows, Stream*) {
  for (size_t row = 0; row < rows->count; ++row) {
    std::memcpy(reinterpret_cast<char*>(rows->to) + row * rows->to_pitch,
                reinterpret_cast<const char*>(rows->from) + row * rows->from_pitch, rows->bytes);
  }
  return 0;
}
int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t bytes, Stream*) {
  std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
  return 0;
}
}
