// Calls the plan `scale_add` of runtime_plans.py from sixteen threads, for ThreadSanitizer, AddressSanitizer
// and UBSan to watch: shapes that come for the first time, more of them than the cache holds, given and
// allocated outputs, refusals, plans that are loaded and dropped while others run. Arguments: plan.json, then
// a name and a file for each kernel.
#include "executor.h"

#include <tvm/ffi/error.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backend.h"
#include "plan.h"

namespace {

namespace ffi = tvm::ffi;
using fusebuild::Executor;

constexpr int kThreads = 16;

std::string Contents(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// What every executor here is made of.
struct Artifact {
  std::string plan;
  std::vector<fusebuild::KernelObject> kernels;

  std::shared_ptr<Executor> Load() const {
    fusebuild::Plan read = fusebuild::ReadPlan(plan, "host");
    std::vector<fusebuild::KernelObject> own;
    for (const std::string& name : read.kernels) {
      for (const fusebuild::KernelObject& kernel : kernels) {
        if (kernel.name == name) own.push_back(kernel);
      }
    }
    auto backend = fusebuild::MakeHostBackend(read.fusion, own);
    return std::make_shared<Executor>(std::move(read), std::move(backend));
  }
};

/// A row-major tensor of floats that knows nothing of tvm-ffi.
struct Floats {
  Floats(std::vector<int64_t> dims, float value) : shape(std::move(dims)), strides(shape.size(), 1) {
    size_t count = 1;
    for (size_t dim = shape.size(); dim-- > 0;) {
      strides[dim] = static_cast<int64_t>(count);
      count *= static_cast<size_t>(shape[dim]);
    }
    numbers.assign(count, value);
    tensor = {numbers.data(),
              {kDLCPU, 0},
              static_cast<int>(shape.size()),
              {kDLFloat, 32, 1},
              shape.data(),
              strides.data(),
              0};
  }

  std::vector<int64_t> shape, strides;
  std::vector<float> numbers;
  DLTensor tensor;
};

/// One call of z = (x * alpha + bias) + y, with `z` given or allocated; how many elements are wrong.
int WrongElements(Executor* executor, int64_t rows, int64_t columns, float x, bool give_out,
                  ffi::Tensor* kept) {
  Floats a({rows, columns}, x), b({rows, columns}, 1), bias({}, 0.5f), out({rows, columns}, -1);
  const ffi::AnyView inputs[] = {&a.tensor, &b.tensor, 2.0, &bias.tensor};
  const ffi::AnyView outs[] = {&out.tensor, nullptr};
  ffi::Any result;
  executor->Call(inputs, 4, give_out ? outs : nullptr, std::nullopt, &result);
  const float* z = out.numbers.data();
  if (!give_out) {
    *kept = ffi::AnyView(result).cast<ffi::Array<ffi::Tensor>>()[0];
    z = static_cast<const float*>(kept->GetDLTensorPtr()->data);
  }
  int wrong = 0;
  for (int64_t i = 0; i < rows * columns; ++i) wrong += z[i] != x * 2 + 0.5f + 1;
  return wrong;
}

/// Whether a call with a y of another shape is refused.
bool IsRefused(Executor* executor) {
  Floats a({2, 4}, 1), b({4, 2}, 1), bias({}, 0.5f);
  const ffi::AnyView inputs[] = {&a.tensor, &b.tensor, 2.0, &bias.tensor};
  ffi::Any result;
  try {
    executor->Call(inputs, 4, nullptr, std::nullopt, &result);
  } catch (const ffi::Error&) {
    return true;
  }
  return false;
}

template <typename Work>
int Sum(Work work) {
  std::atomic<int> sum{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&, thread] { sum += work(thread); });
  for (std::thread& thread : threads) thread.join();
  return sum;
}

int OnePlan(const Artifact& artifact) {
  const std::shared_ptr<Executor> executor = artifact.Load();
  return Sum([&](int thread) {
    int wrong = 0;
    ffi::Tensor kept;
    for (int round = 0; round < 300; ++round) {  // 4800 shapes in all, and one that everybody asks for
      const float x = static_cast<float>(thread + round);
      wrong += WrongElements(executor.get(), round + 1, 2 * (thread + 1), x, round % 2 == 0, &kept);
      wrong += WrongElements(executor.get(), 5, 8, x, round % 3 == 0, &kept);
      wrong += !IsRefused(executor.get());
    }
    return wrong;
  });
}

int PlansThatComeAndGo(const Artifact& artifact) {
  std::shared_ptr<Executor> shared = artifact.Load();
  std::atomic<int> ready{0};
  std::vector<ffi::Tensor> results(kThreads);
  const int wrong = Sum([&](int thread) {
    std::shared_ptr<Executor> own = shared;
    if (++ready == kThreads) shared.reset();  // nobody copies it any more
    int bad = 0;
    for (int round = 0; round < 20; ++round) {
      bad += WrongElements(own.get(), 3, 4, static_cast<float>(thread), false, &results[thread]);
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
  Artifact artifact{Contents(arguments[1]), {}};
  for (int i = 2; i + 1 < count; i += 2)
    artifact.kernels.push_back({arguments[i], Contents(arguments[i + 1]), false});
  std::printf("%d wrong\n", OnePlan(artifact));
  std::printf("%d wrong\n", PlansThatComeAndGo(artifact));
}
