// The plan `scale_add` of runtime_plans.py, loaded and called without Python.
#pragma once

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend.h"
#include "executor.h"
#include "plan.h"

namespace scale_add {

namespace ffi = tvm::ffi;
using fusebuild::Executor;

inline std::string Contents(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// What every executor here is made of: a plan, its target, and an object for each kernel.
struct Artifact {
  /// `arguments` are a target, plan.json, then a name and a file for each kernel.
  explicit Artifact(int count, char** arguments) : target(arguments[0]), plan(Contents(arguments[1])) {
    for (int i = 2; i + 1 < count; i += 2)
      kernels.push_back({arguments[i], Contents(arguments[i + 1]), "", false});
  }

  std::shared_ptr<Executor> Load() const {
    fusebuild::Plan read = fusebuild::ReadPlan(plan, target);
    std::vector<fusebuild::KernelObject> own;
    for (size_t i = 0; i < read.kernels.size(); ++i) {
      for (const fusebuild::KernelObject& kernel : kernels) {
        if (kernel.name == read.kernels[i])
          own.push_back({kernel.name, kernel.bytes, read.kernel_parameters[i], kernel.uses_shared});
      }
    }
    auto backend = target == "host" ? fusebuild::MakeHostBackend(read.fusion, own)
                                    : fusebuild::MakeCudaBackend(read.fusion, target, own, false, {});
    return std::make_shared<Executor>(std::move(read), std::move(backend));
  }

  DLDevice device() const { return {target == "host" ? kDLCPU : kDLCUDA, 0}; }

  std::string target, plan;
  std::vector<fusebuild::KernelObject> kernels;
};

/// A row-major tensor of floats that knows nothing of tvm-ffi. Its memory is the process's, which the fake
/// CUDA's is too.
struct Floats {
  Floats(DLDevice device, std::vector<int64_t> dims, float value)
      : shape(std::move(dims)), strides(shape.size(), 1) {
    size_t count = 1;
    for (size_t dim = shape.size(); dim-- > 0;) {
      strides[dim] = static_cast<int64_t>(count);
      count *= static_cast<size_t>(shape[dim]);
    }
    numbers.assign(count, value);
    tensor = {numbers.data(), device, static_cast<int>(shape.size()), {kDLFloat, 32, 1}, shape.data(),
              strides.data(), 0};
  }

  std::vector<int64_t> shape, strides;
  std::vector<float> numbers;
  DLTensor tensor;
};

/// One call of z = (x * alpha + bias) + y, with `z` given or allocated; how many elements are wrong.
inline int WrongElements(Executor* executor, DLDevice device, int64_t rows, int64_t columns, float x,
                         bool give_out, ffi::Tensor* kept) {
  Floats a(device, {rows, columns}, x), b(device, {rows, columns}, 1), bias({kDLCPU, 0}, {}, 0.5f);
  Floats out(device, {rows, columns}, -1);
  const ffi::AnyView inputs[] = {&a.tensor, &b.tensor, 2.0, &bias.tensor};
  const ffi::AnyView outs[] = {give_out ? ffi::AnyView(&out.tensor) : ffi::AnyView(), nullptr};
  ffi::Any result;
  executor->Call(inputs, 4, outs, std::nullopt, &result);
  const float* z = out.numbers.data();
  if (!give_out) {
    *kept = ffi::AnyView(result).cast<ffi::Array<ffi::Tensor>>()[0];
    z = static_cast<const float*>(kept->GetDLTensorPtr()->data);
  }
  int wrong = 0;
  for (int64_t i = 0; i < rows * columns; ++i) wrong += z[i] != x * 2 + 0.5f + 1;
  return wrong;
}

}  // namespace scale_add
