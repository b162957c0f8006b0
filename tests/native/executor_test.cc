// Calls the plan `scale_add` from sixteen threads, for ThreadSanitizer, AddressSanitizer and UBSan to watch:
// shapes that come for the first time, more of them than the cache holds, given and allocated outputs,
// refusals, plans that are loaded and dropped while others run. Arguments: those of scale_add::Artifact.
#include <tvm/ffi/extra/c_env_api.h>

#include <atomic>
#include <cstdio>
#include <thread>

#include "cuda_driver.h"
#include "scale_add.h"

namespace {

using namespace scale_add;

constexpr int kThreads = 16;
constexpr int kStreams = 5;

/// Whether a call with a y of another shape is refused.
bool IsRefused(Executor* executor, DLDevice device) {
  Floats a(device, {2, 4}, 1), b(device, {4, 2}, 1), bias({kDLCPU, 0}, {}, 0.5f);
  const ffi::AnyView inputs[] = {&a.tensor, &b.tensor, 2.0, &bias.tensor}, outs[] = {nullptr, nullptr};
  ffi::Any result;
  try {
    executor->Call(inputs, 4, outs, std::nullopt, &result);
  } catch (const ffi::Error&) {
    return true;
  }
  return false;
}

/// What `work` gives for each of the threads, in all; each is on one of a few streams.
template <typename Work>
int Sum(DLDevice device, Work work) {
  std::vector<fusebuild::cuda::CUstream> streams(kStreams, nullptr);
  if (device.device_type == kDLCUDA) {
    for (fusebuild::cuda::CUstream& stream : streams)
      fusebuild::cuda::GetDriver().cuStreamCreate(&stream, fusebuild::cuda::kStreamNonBlocking);
  }
  std::atomic<int> sum{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&, thread] {
      TVMFFIEnvSetStream(device.device_type, device.device_id, streams[thread % kStreams], nullptr);
      sum += work(thread);
    });
  for (std::thread& thread : threads) thread.join();
  if (device.device_type == kDLCUDA) {
    for (fusebuild::cuda::CUstream stream : streams) fusebuild::cuda::GetDriver().cuStreamDestroy(stream);
  }
  return sum;
}

int OnePlan(const Artifact& artifact) {
  const std::shared_ptr<Executor> executor = artifact.Load();
  return Sum(artifact.device(), [&](int thread) {
    int wrong = 0;
    ffi::Tensor kept;
    for (int round = 0; round < 300; ++round) {  // 4800 shapes in all, and one that everybody asks for
      const float x = static_cast<float>(thread + round);
      wrong += WrongElements(executor.get(), artifact.device(), round + 1, 2 * (thread + 1), x,
                             round % 2 == 0, &kept);
      wrong += WrongElements(executor.get(), artifact.device(), 5, 8, x, round % 3 == 0, &kept);
      wrong += !IsRefused(executor.get(), artifact.device());
    }
    return wrong;
  });
}

int PlansThatComeAndGo(const Artifact& artifact) {
  std::shared_ptr<Executor> shared = artifact.Load();
  std::atomic<int> ready{0};
  std::vector<ffi::Tensor> results(kThreads);
  const int wrong = Sum(artifact.device(), [&](int thread) {
    std::shared_ptr<Executor> own = shared;
    if (++ready == kThreads) shared.reset();  // nobody copies it any more
    int bad = 0;
    for (int round = 0; round < 20; ++round) {
      bad += WrongElements(own.get(), artifact.device(), 3, 4, static_cast<float>(thread), false,
                           &results[thread]);
      own = artifact.Load();
    }
    return bad;
  });
  int changed = 0;  // results outlive every plan
  for (int thread = 0; thread < kThreads; ++thread) {
    const float* z = static_cast<const float*>(results[thread].GetDLTensorPtr()->data);
    changed += z[11] != static_cast<float>(thread) * 2 + 1.5f;
  }
  return wrong + changed;
}

}  // namespace

int main(int count, char** arguments) {
  const Artifact artifact(count - 1, arguments + 1);
  std::printf("%d wrong\n", OnePlan(artifact));
  std::printf("%d wrong\n", PlansThatComeAndGo(artifact));
}
