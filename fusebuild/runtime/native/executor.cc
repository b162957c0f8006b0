#include "executor.h"

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/extra/c_env_api.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "error.h"

namespace fusebuild {

namespace ffi = tvm::ffi;

namespace {

constexpr int64_t kWorkspaceAlignment = 256;    // PackSlots' offsets are multiples of it
constexpr size_t kFewInputs = 16;               // each pair of so many is looked at in no time
constexpr int64_t kMostMultiprocessors = 4096;  // more than any GPU has; some blocks for each are a grid
constexpr DLDataType kByte = {kDLUInt, 8, 1};

/// Makes a device current for the calling thread while it lives.
class DeviceScope {
 public:
  DeviceScope(Backend* backend, DLDevice device)
      : backend_(backend), token_(backend->EnterDevice(device.device_id)) {}
  ~DeviceScope() { backend_->LeaveDevice(token_); }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  Backend* backend_;
  void* token_;
};

/// The first multiple of kWorkspaceAlignment in `tensor`, which has room for it; null where there is no
/// tensor.
char* AlignedStart(const ffi::Tensor& tensor) {
  if (!tensor.defined()) return nullptr;
  const uintptr_t start = reinterpret_cast<uintptr_t>(Address(*tensor.GetDLTensorPtr()));
  return reinterpret_cast<char*>((start + kWorkspaceAlignment - 1) / kWorkspaceAlignment *
                                 kWorkspaceAlignment);
}

/// The operands of one part of a library call.
Operands OperandsOf(const ResolvedProduct& resolved, const ProductOffsets& part, const Bound& bound) {
  const int64_t bytes = Bytes(resolved.product.dtype);
  return {bound.addresses[resolved.a] + part.a * bytes, bound.addresses[resolved.b] + part.b * bytes,
          resolved.bias < 0 ? nullptr : bound.addresses[resolved.bias],
          resolved.residual < 0 ? nullptr : bound.addresses[resolved.residual] + part.out * bytes,
          bound.addresses[resolved.out] + part.out * bytes};
}

std::string OutName(const Plan& plan, size_t output) {
  return plan.fusion + ": out " + std::to_string(output) + " '" +
         plan.values[plan.outputs[output].value].name + "': ";
}

/// The first output that lives in `owned`, and its place.
std::string OwnedName(const Plan& plan, int owned) {
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    if (plan.outputs[i].kind == OutputKind::kOwned && plan.outputs[i].source == owned)
      return OutName(plan, i);
  }
  return plan.fusion + ": ";
}

/// What FUSEBUILD_MULTIPROCESSORS says, 0 where it is not set.
int64_t GivenMultiprocessors() {
  const char* text = std::getenv("FUSEBUILD_MULTIPROCESSORS");
  if (text == nullptr || *text == '\0') return 0;
  char* end = nullptr;
  const int64_t number = std::strtoll(text, &end, 10);
  if (*end == '\0' && number >= 1 && number <= kMostMultiprocessors) return number;
  ThrowUsageError("FUSEBUILD_MULTIPROCESSORS is '" + std::string(text) + "', expected a number from 1 to " +
                  std::to_string(kMostMultiprocessors));
}

std::string InputName(const Plan& plan, int input) {
  return "argument " + std::to_string(input) + " '" + plan.Input(input).name + "'";
}

}  // namespace

Executor::Executor(Plan plan, std::unique_ptr<Backend> backend)
    : plan_(std::move(plan)), backend_(std::move(backend)), given_multiprocessors_(GivenMultiprocessors()) {}

void Executor::Call(const ffi::AnyView* inputs, int num_inputs, const ffi::AnyView* outs,
                    std::optional<int64_t> variant, ffi::Any* result) {
  Bound bound(plan_);
  BindInputs(inputs, num_inputs, &bound);
  Given given(plan_.outputs.size());
  ReadOuts(outs, &bound, &given);
  AskDevice(&bound);
  AnswerAlignments(&bound);
  std::shared_ptr<const Resolved> resolved = variant ? Resolve(plan_, bound, variant) : ResolveCached(bound);
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i] != nullptr) CheckOut(i, *given[i], bound, *resolved, given);
  }

  DeviceScope scope(backend_.get(), bound.device);
  Tensors owned(plan_.owned.size());
  AllocateOwned(*resolved, &bound, &owned);
  if (!AlignmentsStillHold(&bound)) resolved = Resolve(plan_, bound, variant);
  const ffi::Tensor workspace = AllocateWorkspace(*resolved, &bound);
  const ffi::Tensor scratch = AllocateScratch(*resolved, bound);
  RunAll(*resolved, bound, scratch);
  Return(inputs, *resolved, given, owned, result);
}

void Executor::Check(const ffi::AnyView* inputs, int num_inputs) {
  Bound bound(plan_);
  BindInputs(inputs, num_inputs, &bound);
  AskDevice(&bound);
  AnswerAlignments(&bound);
  ResolveCached(bound);
}

std::vector<std::vector<int64_t>> Executor::VariantsFor(const ffi::AnyView* inputs, int num_inputs) {
  Bound bound(plan_);
  Bind(plan_, inputs, num_inputs, backend_->device_type(), &bound);
  if (bound.device_from < 0) bound.device = backend_->CurrentDevice();
  AskDevice(&bound);
  AnswerAlignments(&bound);
  return ValidVariants(plan_, bound);
}

void Executor::BindInputs(const ffi::AnyView* inputs, int num_inputs, Bound* bound) const {
  backend_->CheckProcess();
  Bind(plan_, inputs, num_inputs, backend_->device_type(), bound);
  CheckOverwrites(*bound);
  if (bound->device_from < 0) bound->device = backend_->CurrentDevice();
}

std::shared_ptr<const Resolved> Executor::ResolveCached(const Bound& bound) {
  std::shared_ptr<const Resolved> resolved = cache_.Find(bound.key);
  if (resolved == nullptr) {
    const std::shared_ptr<Resolved> made = Resolve(plan_, bound, std::nullopt);
    // What is launched alone gains nothing from a graph, and overlaps nothing in one: a call then took 3.2 us
    // of the GPU's time behind another, and takes 2.0 to 2.3 (H100, 2026-11-27).
    if (made->products.empty() && made->launches.size() > 1) made->repeated = backend_->Repeat();
    cache_.Insert(made);
    resolved = made;
  }
  return resolved;
}

// Whether no bytes from the first to the last of an input that is overwritten are those of another one: of
// many tensors in a fraction of the time that it takes to look at each pair.
bool Executor::OverwritesApart(const Bound& bound) const {
  struct Place {
    ByteRange range;
    bool overwritten;
  };
  std::vector<bool> overwritten(plan_.inputs.size());
  for (const Output& output : plan_.outputs)
    if (output.kind == OutputKind::kAlias) overwritten[output.source] = true;
  std::vector<Place> places;
  places.reserve(plan_.inputs.size());
  for (size_t i = 0; i < plan_.inputs.size(); ++i) {
    if (bound.tensors[i] == nullptr || bound.addresses[i] == nullptr) continue;
    places.push_back({Range(*bound.tensors[i]), overwritten[i]});
  }
  std::sort(places.begin(), places.end(),
            [](const Place& a, const Place& b) { return a.range.first < b.range.first; });
  const char *last = nullptr, *last_overwritten = nullptr;  // of those before
  for (const Place& place : places) {
    if (place.range.first < (place.overwritten ? last : last_overwritten)) return false;
    last = std::max(last, place.range.last);
    if (place.overwritten) last_overwritten = std::max(last_overwritten, place.range.last);
  }
  return true;
}

// Overwriting an input that another input shares memory with would make the result depend on the order of
// blocks.
void Executor::CheckOverwrites(const Bound& bound) const {
  const bool are_apart = plan_.inputs.size() > kFewInputs && OverwritesApart(bound);
  for (const Output& output : plan_.outputs) {
    if (output.kind != OutputKind::kAlias) continue;
    const DLTensor& tensor = *bound.tensors[output.source];
    if (OverlapsItself(tensor)) {
      ThrowValueError(plan_.fusion + ": " + InputName(plan_, output.source) + ": output '" +
                      plan_.values[output.value].name +
                      "' overwrites it, and several of its elements share a place: strides " +
                      ShowList(tensor.strides, tensor.ndim) + " for " + Describe(tensor));
    }
    for (int i = 0; i < static_cast<int>(plan_.inputs.size()) && !are_apart; ++i) {
      if (i == output.source || bound.tensors[i] == nullptr || bound.addresses[i] == nullptr) continue;
      if (AreApart(*bound.tensors[i], tensor)) continue;
      ThrowValueError(plan_.fusion + ": " + InputName(plan_, i) + ": overlaps " +
                      InputName(plan_, output.source) + ", which output '" + plan_.values[output.value].name +
                      "' overwrites");
    }
  }
}

// Kinds only; the shapes are checked once the call is resolved.
void Executor::ReadOuts(const ffi::AnyView* outs, Bound* bound, Given* given) const {
  for (size_t i = 0; i < plan_.outputs.size(); ++i) {
    if (outs[i] == nullptr) continue;
    const Output& output = plan_.outputs[i];
    const DLTensor* tensor = AsTensor(outs[i]);
    if (tensor == nullptr)
      ThrowTypeError(OutName(plan_, i) + "expected a tensor, got " + DescribeArgument(outs[i]));
    if (output.kind == OutputKind::kInputView) {
      ThrowValueError(OutName(plan_, i) + "this output shares the memory of " +
                      InputName(plan_, output.source) + ": give None");
    }
    (*given)[i] = tensor;
    if (bound->device_from < 0 && tensor->device.device_type == backend_->device_type())
      bound->device = tensor->device;
    if (output.kind == OutputKind::kAlias) continue;
    if (plan_.owned[output.source].given_by != static_cast<int>(i)) {
      ThrowValueError(OutName(plan_, i) + "this output shares its memory with another output: give None");
    }
    bound->addresses[plan_.OwnedAddress(output.source)] = Address(*tensor);
  }
}

void Executor::CheckOut(size_t i, const DLTensor& tensor, const Bound& bound, const Resolved& resolved,
                        const Given& given) const {
  const Output& output = plan_.outputs[i];
  const Value& value = plan_.values[output.value];
  const Layout& layout = resolved.outputs[i];
  if (output.kind == OutputKind::kAlias) {
    if (IsSameTensor(tensor, *bound.tensors[output.source])) return;
    ThrowValueError(OutName(plan_, i) + "this output overwrites " + InputName(plan_, output.source) +
                    ": give that tensor or None");
  }
  const bool right_dtype = Equal(tensor.dtype, value.dtype);
  const bool right_shape =
      std::equal(layout.shape.begin(), layout.shape.end(), tensor.shape, tensor.shape + tensor.ndim);
  if (!right_dtype || !right_shape) {
    std::string expected = ShowList(layout.shape.data(), layout.shape.size());
    expected = "[" + expected.substr(1, expected.size() - (layout.shape.size() == 1 ? 3 : 2)) + "]";
    const std::string message =
        OutName(plan_, i) + "expected " + Describe(value.dtype) + expected + ", got " + Describe(tensor);
    right_dtype ? ThrowValueError(message) : ThrowTypeError(message);
  }
  if (tensor.device.device_type != bound.device.device_type ||
      tensor.device.device_id != bound.device.device_id) {
    ThrowValueError(OutName(plan_, i) + "expected a tensor on " + Describe(bound.device) + ", got one on " +
                    Describe(tensor.device));
  }
  const std::string problem = AddressProblem(tensor, Bytes(value.dtype));
  if (!problem.empty()) ThrowValueError(OutName(plan_, i) + problem);
  if (!StridesMatch(tensor, layout.strides.data())) {
    ThrowValueError(OutName(plan_, i) + "expected strides " +
                    ShowList(layout.strides.data(), layout.strides.size()) + ", got " +
                    ShowList(tensor.strides, tensor.ndim));
  }
  const Layout& root = resolved.owned[output.source];
  const bool is_root = plan_.owned[output.source].value == output.value;
  if (!is_root && root.storage != layout.storage) {
    ThrowValueError(OutName(plan_, i) + "this output is a view of a part of a larger tensor: give None");
  }
  for (int input = 0; input < static_cast<int>(plan_.inputs.size()); ++input) {
    if (bound.tensors[input] != nullptr && !AreApart(*bound.tensors[input], tensor)) {
      ThrowValueError(OutName(plan_, i) + "overlaps " + InputName(plan_, input));
    }
  }
  for (size_t other = 0; other < i; ++other) {
    if (given[other] != nullptr && !AreApart(*given[other], tensor)) {
      ThrowValueError(OutName(plan_, i) + "overlaps out " + std::to_string(other) + " '" +
                      plan_.values[plan_.outputs[other].value].name + "'");
    }
  }
}

void Executor::AskDevice(Bound* bound) const {
  if (plan_.multiprocessors < 0) return;
  bound->key[plan_.multiprocessors] = given_multiprocessors_ > 0
                                          ? given_multiprocessors_
                                          : backend_->Multiprocessors(bound->device.device_id);
}

// Whether each step along a dim whose stride the caller chooses is a multiple of `bytes`.
static bool StepsAreAligned(const Bound& bound, const std::vector<FreeStride>& strides, int64_t bytes) {
  for (const FreeStride& free : strides) {
    const DLTensor& tensor = *bound.tensors[free.input];
    if (tensor.shape[free.dim] > 1 && tensor.strides[free.dim] * Bytes(tensor.dtype) % bytes != 0)
      return false;
  }
  return true;
}

// A tensor not allocated yet counts as aligned: allocators align to 64 bytes or more. AlignmentsStillHold
// checks.
void Executor::AnswerAlignments(Bound* bound) const {
  for (size_t i = 0; i < plan_.alignment_addresses.size(); ++i) {
    const int index = plan_.alignment_addresses[i];
    const int64_t bytes = plan_.names.alignments[i].bytes;
    const bool is_slot = index >= plan_.SlotAddress(0);
    bound->SetAligned(i, is_slot ? kWorkspaceAlignment % bytes == 0
                                 : IsAligned(bound->addresses[index], bytes) &&
                                       StepsAreAligned(*bound, plan_.alignment_strides[i], bytes));
  }
}

bool Executor::AlignmentsStillHold(Bound* bound) const {
  bool hold = true;
  for (size_t i = 0; i < plan_.alignment_addresses.size(); ++i) {
    const int index = plan_.alignment_addresses[i];
    if (index < plan_.OwnedAddress(0) || index >= plan_.SlotAddress(0)) continue;
    if (IsAligned(bound->addresses[index], plan_.names.alignments[i].bytes)) continue;
    hold &= !bound->IsAligned(i);
    bound->SetAligned(i, false);
  }
  return hold;
}

ffi::Tensor Executor::Allocate(ffi::ShapeView shape, DLDataType dtype, DLDevice device) const {
  if (TVMFFIEnvGetDLPackManagedTensorAllocator() == nullptr) return backend_->Allocate(shape, dtype, device);
  return ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, shape, dtype, device);
}

// Memory for what outputs live in, or, where `owned` is negative, for what kernels leave there for each
// other. An error says for which.
ffi::Tensor Executor::AllocateFor(int owned, ffi::ShapeView shape, DLDataType dtype, DLDevice device) const {
  try {
    return Allocate(shape, dtype, device);
  } catch (const ffi::Error& error) {
    const std::string name = owned < 0 ? plan_.fusion + ": workspace: " : OwnedName(plan_, owned);
    throw ffi::Error(error.kind(), name + error.message(), std::string());
  }
}

void Executor::AllocateOwned(const Resolved& resolved, Bound* bound, Tensors* owned) const {
  for (size_t i = 0; i < plan_.owned.size(); ++i) {
    char*& address = bound->addresses[plan_.OwnedAddress(static_cast<int>(i))];
    if (address != nullptr) continue;  // given by the caller
    const Layout& layout = resolved.owned[i];
    const DLDataType dtype = plan_.values[plan_.owned[i].value].dtype;
    const ffi::ShapeView shape = layout.contiguous ? layout.shape : ffi::ShapeView(&layout.storage, 1);
    (*owned)[i] = AllocateFor(static_cast<int>(i), shape, dtype, bound->device);
    address = Address(*(*owned)[i].GetDLTensorPtr());
  }
}

ffi::Tensor Executor::AllocateWorkspace(const Resolved& resolved, Bound* bound) const {
  if (resolved.workspace_bytes == 0) return ffi::Tensor();
  // Allocators promise less than 256 bytes of alignment, so ask for room to round the start up.
  const int64_t bytes = resolved.workspace_bytes + kWorkspaceAlignment - 1;
  ffi::Tensor workspace = AllocateFor(-1, ffi::ShapeView(&bytes, 1), kByte, bound->device);
  char* base = AlignedStart(workspace);
  for (size_t slot = 0; slot < plan_.slots.size(); ++slot) {
    bound->addresses[plan_.SlotAddress(static_cast<int>(slot))] = base + resolved.slot_offsets[slot];
  }
  return workspace;
}

// Library calls share one piece of memory: they run one after the other.
ffi::Tensor Executor::AllocateScratch(const Resolved& resolved, const Bound& bound) const {
  int64_t bytes = 0;
  for (const ResolvedProduct& product : resolved.products) {
    for (const ProductOffsets& part : product.parts) {
      const Operands operands = OperandsOf(product, part, bound);
      bytes = std::max(bytes, backend_->ScratchBytes(bound.device.device_id, product.product, operands));
    }
  }
  if (bytes == 0) return ffi::Tensor();
  bytes += kWorkspaceAlignment - 1;
  return AllocateFor(-1, ffi::ShapeView(&bytes, 1), kByte, bound.device);
}

void Executor::RunAll(const Resolved& resolved, const Bound& bound, const ffi::Tensor& scratch) const {
  InlineBuffer<uint64_t, 64> values(resolved.values.size());
  InlineBuffer<void*, 64> pointers(resolved.values.size());
  std::memcpy(values.data(), resolved.values.data(), resolved.values.size() * sizeof(uint64_t));
  for (const Patch& patch : resolved.patches) {
    values[patch.value] = patch.is_scalar ? bound.scalars[patch.index]
                                          : reinterpret_cast<uint64_t>(bound.addresses[patch.index]);
  }
  for (size_t i = 0; i < values.size(); ++i) pointers[i] = &values[i];
  InlineBuffer<LaunchRequest, 8> requests(resolved.launches.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    const ResolvedLaunch& launch = resolved.launches[i];
    requests[i] = {launch.kernel,       launch.grid,    launch.block,
                   launch.shared_bytes, launch.cluster, pointers.data() + launch.first_value,
                   launch.num_values,   launch.overlaps};
  }
  const DLDevice device = bound.device;
  void* stream =
      device.device_type == kDLCPU ? nullptr : TVMFFIEnvGetStream(device.device_type, device.device_id);
  size_t launched = 0;
  auto launch_until = [&](size_t end) {
    backend_->Launch(device.device_id, requests.data() + launched, end - launched, resolved.repeated.get(),
                     stream);
    launched = end;
  };
  for (const ResolvedProduct& product : resolved.products) {
    launch_until(product.launches_before);
    for (const ProductOffsets& part : product.parts) {
      backend_->Multiply(device.device_id, product.product, OperandsOf(product, part, bound),
                         AlignedStart(scratch), stream);
    }
  }
  launch_until(resolved.launches.size());
}

void Executor::Return(const ffi::AnyView* inputs, const Resolved& resolved, const Given& given,
                      const Tensors& owned, ffi::Any* result) const {
  InlineBuffer<ffi::Tensor, 8> made(plan_.outputs.size());
  size_t count = 0;
  for (size_t i = 0; i < plan_.outputs.size(); ++i) {
    const Output& output = plan_.outputs[i];
    if (given[i] != nullptr || output.kind == OutputKind::kAlias) continue;
    const bool of_input = output.kind == OutputKind::kInputView;
    const ffi::Tensor base = of_input ? inputs[output.source].cast<ffi::Tensor>() : owned[output.source];
    const bool is_base =
        output.value == (of_input ? plan_.inputs[output.source] : plan_.owned[output.source].value) &&
        (of_input || resolved.owned[output.source].contiguous);
    const Layout& layout = resolved.outputs[i];
    made[count++] = is_base ? base : base.as_strided(layout.shape, layout.strides);
  }
  if (count == 1) *result = made[0];
  if (count > 1) *result = ffi::Array<ffi::Tensor>(made.data(), made.data() + count);
}

}  // namespace fusebuild
