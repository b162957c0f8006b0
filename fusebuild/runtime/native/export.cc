// What Python sees: the functions of the shared library, and the functions that a loaded plan consists of.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/string.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "backend.h"
#include "bind.h"
#include "error.h"
#include "executor.h"

namespace fusebuild {
namespace {

namespace ffi = tvm::ffi;

bool IsHost(const std::string& target) { return target.rfind("host", 0) == 0; }

std::vector<KernelObject> Objects(const Plan& plan, const ffi::Array<ffi::String>& names,
                                  const ffi::Array<ffi::Bytes>& objects) {
  std::vector<KernelObject> kernels;
  for (size_t kernel = 0; kernel < plan.kernels.size(); ++kernel) {
    const std::string& name = plan.kernels[kernel];
    for (size_t i = 0; i < names.size(); ++i) {
      if (std::string(names[i]) == name)
        kernels.push_back(
            {name, std::string(objects[i]), plan.kernel_parameters[kernel], plan.kernel_uses_shared[kernel]});
    }
    if (kernels.size() != kernel + 1)
      ThrowValueError(plan.fusion + ": kernel " + name + ": no object for it");
  }
  return kernels;
}

/// Whether one of `count` arguments is a tensor with dims, but of one element: its strides say nothing.
bool HasOneElement(const ffi::AnyView* arguments, int count) {
  return std::any_of(arguments, arguments + count, [](const ffi::AnyView& argument) {
    const DLTensor* tensor = AsTensor(argument);
    return tensor != nullptr && tensor->ndim > 0 &&
           std::all_of(tensor->shape, tensor->shape + tensor->ndim, [](int64_t size) { return size == 1; });
  });
}

/// Loads `target`'s part of a plan. `objects[i]` is the compiled object of kernel `names[i]`, `libraries` are
/// files of cuBLASLt that matrix products may use. Returns five functions:
///   call(variant or None, inputs..., outs...) -> see Executor::Call; a tensor or None for every output
///   call_into_given(inputs..., outs...)       -> the same with no variant; but true, and nothing is done, if
///       a tensor has dims and one element. torch may have yet to negate it: what it has yet to, lies in
///       complex numbers, which the strides of others show
///   call_into_new(inputs..., outs...)         -> the same where the outs were made for this call
///   check(inputs...)                          -> nothing; throws what a call would
///   variants_for(inputs...)                   -> for each segment, the indices of the variants that fit
ffi::Array<ffi::Function> Load(const ffi::String& plan_json, const ffi::String& target,
                               const ffi::Array<ffi::String>& names, const ffi::Array<ffi::Bytes>& objects,
                               const ffi::Array<ffi::String>& libraries) {
  Plan plan = ReadPlan(std::string(plan_json), std::string(target));
  const std::vector<KernelObject> kernels = Objects(plan, names, objects);
  const bool multiplies = std::any_of(plan.segments.begin(), plan.segments.end(),
                                      [](const Segment& segment) { return segment.call.has_value(); });
  const std::vector<std::string> paths(libraries.begin(), libraries.end());
  std::unique_ptr<Backend> backend =
      IsHost(plan.target) ? MakeHostBackend(plan.fusion, kernels)
                          : MakeCudaBackend(plan.fusion, plan.target, kernels, multiplies, paths);
  auto executor = std::make_shared<Executor>(std::move(plan), std::move(backend));

  auto call = [executor](ffi::PackedArgs args, ffi::Any* result) {
    const int num_outputs = static_cast<int>(executor->plan().outputs.size());
    const int num_inputs = args.size() - 1 - num_outputs;
    if (num_inputs < 0)
      ThrowTypeError(executor->plan().fusion + ": expected the variant, the inputs and the outputs");
    const std::optional<int64_t> variant =
        args[0] == nullptr ? std::nullopt : std::optional(args[0].cast<int64_t>());
    executor->Call(args.data() + 1, num_inputs, args.data() + 1 + num_inputs, variant, result);
  };
  auto call_unless_doubtful = [executor](bool outs_too) {
    return ffi::Function::FromPacked([executor, outs_too](ffi::PackedArgs args, ffi::Any* result) {
      const int num_inputs = static_cast<int>(executor->plan().inputs.size());
      const int num_outputs = static_cast<int>(executor->plan().outputs.size());
      if (args.size() != num_inputs + num_outputs)
        ThrowTypeError(executor->plan().fusion + ": expected the inputs and the outputs");
      if (HasOneElement(args.data(), outs_too ? args.size() : num_inputs)) {
        *result = true;
        return;
      }
      executor->Call(args.data(), num_inputs, args.data() + num_inputs, std::nullopt, result);
    });
  };
  auto check = [executor](ffi::PackedArgs args, ffi::Any*) { executor->Check(args.data(), args.size()); };
  auto variants_for = [executor](ffi::PackedArgs args, ffi::Any* result) {
    ffi::Array<ffi::Array<int64_t>> segments;
    for (const std::vector<int64_t>& valid : executor->VariantsFor(args.data(), args.size())) {
      segments.push_back(ffi::Array<int64_t>(valid.begin(), valid.end()));
    }
    *result = segments;
  };
  return {ffi::Function::FromPacked(call), call_unless_doubtful(true), call_unless_doubtful(false),
          ffi::Function::FromPacked(check), ffi::Function::FromPacked(variants_for)};
}

}  // namespace
}  // namespace fusebuild

TVM_FFI_DLL_EXPORT_TYPED_FUNC(load, fusebuild::Load);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(current_compute_capability, fusebuild::CurrentComputeCapability);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(device_count, fusebuild::DeviceCount);
