// One loaded plan, ready to be called from many threads at once.
#pragma once

#include <tvm/ffi/any.h>
#include <tvm/ffi/container/tensor.h>

#include <memory>
#include <optional>
#include <vector>

#include "backend.h"
#include "plan.h"
#include "resolve.h"

namespace fusebuild {

class Executor {
 public:
  /// Kernels count on as many multiprocessors as FUSEBUILD_MULTIPROCESSORS says now, where it is set.
  Executor(Plan plan, std::unique_ptr<Backend> backend);

  /// Checks everything, then launches. `outs` holds a tensor or None per output. `variant` forces
  /// an index. The result holds what the call made, in order: nothing for an output that overwrites an input
  /// or was given in `outs`; None for no tensors, the tensor for one, else an array.
  void Call(const tvm::ffi::AnyView* inputs, int num_inputs, const tvm::ffi::AnyView* outs,
            std::optional<int64_t> variant, tvm::ffi::Any* result);

  /// Throws what a call with these inputs would.
  void Check(const tvm::ffi::AnyView* inputs, int num_inputs);

  /// For each segment, the indices of the variants that fit these inputs.
  std::vector<std::vector<int64_t>> VariantsFor(const tvm::ffi::AnyView* inputs, int num_inputs);

  const Plan& plan() const { return plan_; }

 private:
  using Given = InlineBuffer<const DLTensor*, 16>;  // per output, null for None
  using Tensors = InlineBuffer<tvm::ffi::Tensor, 8>;

  void BindInputs(const tvm::ffi::AnyView* inputs, int num_inputs, Bound* bound) const;
  void ReadOuts(const tvm::ffi::AnyView* outs, Bound* bound, Given* given) const;
  void CheckOut(size_t output, const DLTensor& tensor, const Bound& bound, const Resolved& resolved,
                const Given& given) const;
  bool OverwritesApart(const Bound& bound) const;
  void CheckOverwrites(const Bound& bound) const;
  void AskDevice(Bound* bound) const;
  void AnswerAlignments(Bound* bound) const;
  bool AlignmentsStillHold(Bound* bound) const;
  std::shared_ptr<const Resolved> ResolveCached(const Bound& bound);
  tvm::ffi::Tensor Allocate(tvm::ffi::ShapeView shape, DLDataType dtype, DLDevice device) const;
  tvm::ffi::Tensor AllocateFor(int owned, tvm::ffi::ShapeView shape, DLDataType dtype, DLDevice device) const;
  void AllocateOwned(const Resolved& resolved, Bound* bound, Tensors* owned) const;
  tvm::ffi::Tensor AllocateWorkspace(const Resolved& resolved, Bound* bound) const;
  tvm::ffi::Tensor AllocateScratch(const Resolved& resolved, const Bound& bound) const;
  void RunAll(const Resolved& resolved, const Bound& bound, const tvm::ffi::Tensor& scratch) const;
  void Return(const tvm::ffi::AnyView* inputs, const Resolved& resolved, const Given& given,
              const Tensors& owned, tvm::ffi::Any* result) const;

  const Plan plan_;
  const std::unique_ptr<Backend> backend_;
  const int64_t given_multiprocessors_;  // 0: those that the device has
  ResolvedCache cache_;
};

}  // namespace fusebuild
