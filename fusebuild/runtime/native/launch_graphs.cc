#include "launch_graphs.h"

#include <cstring>

namespace fusebuild {

using namespace cuda;  // the driver's own names, which all start with CU, cu or k

namespace {

constexpr int kNotCapturing = 0;  // CU_STREAM_CAPTURE_STATUS_NONE

/// Whether launches on `stream` are recorded, or forbidden because another stream's are.
bool IsCaptured(CUstream stream) {
  int status = kNotCapturing;
  return GetDriver().cuStreamIsCapturing(stream, &status) != kSuccess || status != kNotCapturing;
}

}  // namespace

/// An executable graph, the nodes of its kernels in order, and the arguments that they have now.
struct LaunchGraphs::Graph {
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  // The driver keeps what still runs until it has run.
  ~Graph() {
    if (IsForked()) return;
    const RelaxedCapture relaxed;
    if (exec != nullptr) GetDriver().cuGraphExecDestroy(exec);
    if (graph != nullptr) GetDriver().cuGraphDestroy(graph);
  }

  /// A graph of `requests`; null when the driver makes none.
  static std::unique_ptr<Graph> Of(const LaunchRequest* requests, size_t count, const LaunchOne& launch_one) {
    const RelaxedCapture relaxed;
    CUstream stream = nullptr;
    if (GetDriver().cuStreamCreate(&stream, kStreamNonBlocking) != kSuccess) return nullptr;
    auto made = std::make_unique<Graph>();
    const bool recorded = made->Record(requests, count, stream, launch_one);
    GetDriver().cuStreamDestroy(stream);
    if (!recorded || GetDriver().cuGraphInstantiateWithFlags(&made->exec, made->graph, 0) != kSuccess)
      return nullptr;
    return made;
  }

  /// Captures the launches on `stream`, and each one's node: what the next would wait for.
  bool Record(const LaunchRequest* requests, size_t count, CUstream stream, const LaunchOne& launch_one) {
    const Driver& driver = GetDriver();
    if (driver.cuStreamBeginCapture(stream, kCaptureModeRelaxed) != kSuccess) return false;
    bool recorded = true;
    for (size_t i = 0; i < count && recorded; ++i) {
      int status = kNotCapturing;
      const CUgraphNode* last = nullptr;
      size_t num_last = 0;
      recorded = launch_one(requests[i], stream) == kSuccess &&
                 driver.cuStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &last, nullptr,
                                               &num_last) == kSuccess &&
                 num_last == 1;
      if (!recorded) break;
      nodes.push_back(last[0]);
      const uint64_t* given = Arguments(requests[i]);
      arguments.insert(arguments.end(), given, given + requests[i].num_args);
    }
    return driver.cuStreamEndCapture(stream, &graph) == kSuccess && recorded;
  }

  /// Gives the nodes the arguments of `requests` where they have others.
  bool Set(const std::vector<CUfunction>& functions, const LaunchRequest* requests, size_t count) {
    uint64_t* kept = arguments.data();
    for (size_t i = 0; i < count; ++i) {
      const LaunchRequest& request = requests[i];
      const size_t bytes = request.num_args * sizeof(uint64_t);
      if (bytes > 0 && std::memcmp(kept, Arguments(request), bytes) != 0) {
        const CUkernelNodeParams parameters = {
            functions[request.kernel],
            {static_cast<unsigned>(request.grid[0]), static_cast<unsigned>(request.grid[1]),
             static_cast<unsigned>(request.grid[2])},
            {static_cast<unsigned>(request.block[0]), static_cast<unsigned>(request.block[1]),
             static_cast<unsigned>(request.block[2])},
            static_cast<unsigned>(request.shared_bytes),
            request.args,
            nullptr,
            nullptr,
            nullptr};
        if (GetDriver().cuGraphExecKernelNodeSetParams(exec, nodes[i], &parameters) != kSuccess) return false;
        std::memcpy(kept, Arguments(request), bytes);
      }
      kept += request.num_args;
    }
    return true;
  }

  static const uint64_t* Arguments(const LaunchRequest& request) {
    return request.num_args == 0 ? nullptr : static_cast<const uint64_t*>(request.args[0]);
  }

  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  std::vector<CUgraphNode> nodes;
  std::vector<uint64_t> arguments;
};

/// One stream's graph, once there is one.
struct LaunchGraphs::Lane {
  int device;
  CUstream stream;
  int calls;
  std::unique_ptr<Graph> graph;
};

LaunchGraphs::LaunchGraphs(std::atomic<int>* graphs) : graphs_(graphs) {}

LaunchGraphs::~LaunchGraphs() {
  for (const std::unique_ptr<Lane>& lane : lanes_) *graphs_ -= lane->graph != nullptr;
}

LaunchGraphs::Lane* LaunchGraphs::Find(int device, CUstream stream) {
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    if (lane->device == device && lane->stream == stream) return lane.get();
  }
  if (lanes_.size() == kMaxStreams) return nullptr;
  lanes_.push_back(std::make_unique<Lane>(Lane{device, stream, 0, nullptr}));
  return lanes_.back().get();
}

bool LaunchGraphs::Launch(int device, const std::vector<CUfunction>& functions, const LaunchRequest* requests,
                          size_t count, CUstream stream, const LaunchOne& launch_one) {
  if (IsCaptured(stream)) return false;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  Lane* lane = Find(device, stream);
  if (lane == nullptr) return false;
  if (lane->graph == nullptr) {
    if (++lane->calls != kPlainCalls) return false;  // a graph that could not be made is not tried again
    if (++*graphs_ <= kMaxGraphs) lane->graph = Graph::Of(requests, count, launch_one);
    if (lane->graph == nullptr) {
      --*graphs_;
      return false;
    }
  }
  if (lane->graph->Set(functions, requests, count) &&
      GetDriver().cuGraphLaunch(lane->graph->exec, stream) == kSuccess)
    return true;
  lane->graph.reset();  // plain launches either work or say what is wrong
  --*graphs_;
  return false;
}

}  // namespace fusebuild
