// Calls the plan `scale_add`, which launches two kernels, on the fake CUDA, and shows how its calls were
// launched. Prints a line for each thing that is not as it should be. Arguments: those of
// scale_add::Artifact.
#include "launch_graphs.h"

#include <dlfcn.h>
#include <tvm/ffi/extra/c_env_api.h>

#include <cstdio>

#include "cuda_driver.h"
#include "scale_add.h"

namespace {

using namespace scale_add;
using fusebuild::LaunchGraphs;
using fusebuild::cuda::CUstream;
using fusebuild::cuda::GetDriver;

constexpr int kPlain = LaunchGraphs::kPlainCalls - 1;  // the next call makes the graph
constexpr int kKernels = 2;

template <typename Function>
Function FakeFunction(const char* name) {
  return reinterpret_cast<Function>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), name));
}

int Count(const char* name) { return FakeFunction<int (*)()>(name)(); }
void Fail(const char* name) { FakeFunction<void (*)(const char*)>("FakeCudaFail")(name); }

/// What was launched since it was made.
struct Launches {
  int plain = Count("FakeCudaPlainLaunches"), graphs = Count("FakeCudaGraphLaunches");

  void Expect(const char* when, int expected_plain, int expected_graphs) const {
    const int had_plain = Count("FakeCudaPlainLaunches") - plain;
    const int had_graphs = Count("FakeCudaGraphLaunches") - graphs;
    if (had_plain == expected_plain && had_graphs == expected_graphs) return;
    std::printf("%s: %d kernels and %d graphs, expected %d and %d\n", when, had_plain, had_graphs,
                expected_plain, expected_graphs);
  }
};

void ExpectLive(const char* when, int expected) {
  if (const int live = Count("FakeCudaLive"); live != expected)
    std::printf("%s: %d graphs and streams, expected %d\n", when, live, expected);
}

/// So many right calls of one shape, each on memory and with numbers of its own.
void Call(const char* when, Executor* executor, int times, CUstream stream = nullptr, int64_t rows = 5) {
  ffi::Tensor kept;
  TVMFFIEnvSetStream(kDLCUDA, 0, stream, nullptr);
  int wrong = 0;
  for (int i = 0; i < times; ++i)
    wrong += WrongElements(executor, {kDLCUDA, 0}, rows, 8, static_cast<float>(i), i % 2 == 0, &kept);
  if (wrong > 0) std::printf("%s: %d elements are wrong\n", when, wrong);
}

void CallsThatComeAgainAreGraphs(const Artifact& artifact) {
  const auto executor = artifact.Load();
  const Launches before;
  Call("repeated", executor.get(), kPlain + 100);
  before.Expect("repeated", kKernels * kPlain, 100);
  Call("another shape", executor.get(), kPlain, nullptr, 7);
  before.Expect("another shape", 2 * kKernels * kPlain, 100);
}

void EveryStreamHasItsOwn(const Artifact& artifact) {
  const auto executor = artifact.Load();
  std::vector<CUstream> streams(LaunchGraphs::kMaxStreams + 1);
  for (CUstream& stream : streams) GetDriver().cuStreamCreate(&stream, fusebuild::cuda::kStreamNonBlocking);
  const Launches before;
  for (CUstream stream : streams) Call("streams", executor.get(), kPlain + 10, stream);
  const int all = static_cast<int>(streams.size());
  before.Expect("streams", kKernels * (all * kPlain + 10), (all - 1) * 10);  // the last is one too many
  for (CUstream stream : streams) GetDriver().cuStreamDestroy(stream);
}

void ThereAreNotTooMany(const Artifact& artifact) {
  const auto executor = artifact.Load();
  const Launches before;
  const int shapes = LaunchGraphs::kMaxGraphs + 3;
  for (int shape = 0; shape < shapes; ++shape) Call("shapes", executor.get(), kPlain + 1, nullptr, shape + 1);
  before.Expect("shapes", kKernels * (shapes * kPlain + 3), LaunchGraphs::kMaxGraphs);
  ExpectLive("shapes", 2 * LaunchGraphs::kMaxGraphs);
}

void StreamsThatAreCapturedGetTheKernels(const Artifact& artifact) {
  const auto executor = artifact.Load();
  CUstream stream = nullptr;
  GetDriver().cuStreamCreate(&stream, fusebuild::cuda::kStreamNonBlocking);
  Call("before capture", executor.get(), kPlain + 5, stream);
  const Launches before;
  {
    const fusebuild::cuda::RelaxedCapture relaxed;
    GetDriver().cuStreamBeginCapture(stream, fusebuild::cuda::kCaptureModeRelaxed);
  }
  Floats a({kDLCUDA, 0}, {5, 8}, 3), b({kDLCUDA, 0}, {5, 8}, 1), bias({kDLCPU, 0}, {}, 0.5f);
  const ffi::AnyView inputs[] = {&a.tensor, &b.tensor, 2.0, &bias.tensor}, outs[] = {nullptr, nullptr};
  ffi::Any result;
  executor->Call(inputs, 4, outs, std::nullopt, &result);
  fusebuild::cuda::CUgraph graph = nullptr;
  GetDriver().cuStreamEndCapture(stream, &graph);
  before.Expect("captured", 0, 0);
  Call("after capture", executor.get(), 5, stream);
  before.Expect("after capture", 0, 5);
  GetDriver().cuGraphDestroy(graph);
  GetDriver().cuStreamDestroy(stream);
}

void WhatFailsIsLaunchedPlainly(const Artifact& artifact) {
  for (const char* name :
       {"cuStreamCreate", "cuStreamBeginCapture_v2", "cuStreamGetCaptureInfo_v3",
        "cuGraphInstantiateWithFlags", "cuGraphExecKernelNodeSetParams_v2", "cuGraphLaunch"}) {
    const auto executor = artifact.Load();
    const Launches before;
    Fail(name);
    Call(name, executor.get(), kPlain + 10);
    Fail("");
    Call(name, executor.get(), 10);  // it is not tried again
    const int graphs =
        name == std::string("cuGraphExecKernelNodeSetParams_v2");  // the call that makes it sets none
    before.Expect(name, kKernels * (kPlain + 20 - graphs), graphs);
    ExpectLive(name, 0);
  }
}

void FailuresOfKernelsAreErrors(const Artifact& artifact) {
  const auto executor = artifact.Load();
  Call("before a failure", executor.get(), kPlain);
  Fail("cuLaunchKernelEx");
  try {
    Call("failure", executor.get(), 1);
    std::printf("a launch that fails is no error\n");
  } catch (const ffi::Error& error) {
    const std::string expected =
        "scale_add: kernel scale: launch with grid (5, 1, 1), block (128, 1, 1), 0 bytes of dynamic shared "
        "memory "
        "failed: CUDA_ERROR_UNKNOWN";
    if (error.message() != expected) std::printf("%s\n", error.message().c_str());
  }
  Fail("");
  ExpectLive("failure", 0);
}

}  // namespace

int main(int count, char** arguments) {
  const Artifact artifact(count - 1, arguments + 1);
  CallsThatComeAgainAreGraphs(artifact);
  EveryStreamHasItsOwn(artifact);
  ThereAreNotTooMany(artifact);
  StreamsThatAreCapturedGetTheKernels(artifact);
  WhatFailsIsLaunchedPlainly(artifact);
  FailuresOfKernelsAreErrors(artifact);
  ExpectLive("in the end", 0);
}
