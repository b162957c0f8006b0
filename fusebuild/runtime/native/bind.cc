#include "bind.h"

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/string.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "error.h"

namespace fusebuild {

namespace ffi = tvm::ffi;
using ffi::TypeIndex;

Bound::Bound(const Plan& plan)
    : tensors(plan.inputs.size()),
      scalars(plan.inputs.size()),
      addresses(plan.NumAddresses()),
      key(plan.names.symbols.size() + plan.free_strides.size() + (plan.names.alignments.size() + 63) / 64),
      aligned_begin(plan.names.symbols.size() + plan.free_strides.size()),
      device{kDLCPU, 0} {}

void Bound::SetAligned(size_t question, bool aligned) {
  uint64_t word;
  std::memcpy(&word, &key[aligned_begin + question / 64], 8);
  const uint64_t bit = uint64_t{1} << (question % 64);
  word = aligned ? word | bit : word & ~bit;
  std::memcpy(&key[aligned_begin + question / 64], &word, 8);
}

std::string ShowList(const int64_t* items, size_t size) {
  std::string text = "(";
  for (size_t i = 0; i < size; ++i) text += (i ? ", " : "") + std::to_string(items[i]);
  return text + (size == 1 ? ",)" : ")");
}

std::string Describe(const DLTensor& tensor) {
  std::string text = Describe(tensor.dtype) + "[";
  for (int dim = 0; dim < tensor.ndim; ++dim) text += (dim ? ", " : "") + std::to_string(tensor.shape[dim]);
  return text + "]";
}

static int64_t Numel(const DLTensor& tensor) {
  int64_t numel = 1;
  for (int dim = 0; dim < tensor.ndim; ++dim) numel *= tensor.shape[dim];
  return numel;
}

static int64_t ElementBytes(const DLTensor& tensor) {
  return (tensor.dtype.bits * tensor.dtype.lanes + 7) / 8;
}

ByteRange Range(const DLTensor& tensor) {
  const char* base = Address(tensor);
  if (Numel(tensor) == 0) return {base, base};
  const int64_t bytes = ElementBytes(tensor);
  int64_t low = 0, high = 0;
  for (int dim = 0; dim < tensor.ndim; ++dim) {
    const int64_t reach = (tensor.shape[dim] - 1) * tensor.strides[dim];
    (reach < 0 ? low : high) += reach;
  }
  return {base + low * bytes, base + (high + 1) * bytes};
}

/// How many bytes from the first on a tensor's elements take when whole pitches are left out.
static int64_t BytesWithin(const DLTensor& tensor, int64_t pitch) {
  const int64_t bytes = ElementBytes(tensor);
  int64_t within = bytes;
  for (int dim = 0; dim < tensor.ndim; ++dim) {
    const int64_t step = std::abs(tensor.strides[dim]) * bytes;
    if (step % pitch != 0) within += (tensor.shape[dim] - 1) * step;
  }
  return within;
}

/// Whether `b` lies in what one of the dims of `a` steps over.
static bool LiesBetween(const DLTensor& a, const DLTensor& b) {
  for (int dim = 0; dim < a.ndim; ++dim) {
    const int64_t pitch = std::abs(a.strides[dim]) * ElementBytes(a);
    if (a.shape[dim] == 1 || pitch == 0) continue;
    const int64_t offset = ((Range(b).first - Range(a).first) % pitch + pitch) % pitch;
    if (offset >= BytesWithin(a, pitch) && offset + BytesWithin(b, pitch) <= pitch) return true;
  }
  return false;
}

bool AreApart(const DLTensor& a, const DLTensor& b) {
  return !Range(a).Overlaps(Range(b)) || LiesBetween(a, b) || LiesBetween(b, a);
}

bool OverlapsItself(const DLTensor& tensor) {
  if (Numel(tensor) == 0) return false;
  for (int a = 0; a < tensor.ndim; ++a) {
    const int64_t step_a = tensor.shape[a] == 1 ? 0 : std::abs(tensor.strides[a]);
    if (tensor.shape[a] > 1 && step_a == 0) return true;
    for (int b = 0; b < a && step_a > 0; ++b) {
      if (tensor.shape[b] == 1) continue;
      const int64_t step_b = std::abs(tensor.strides[b]), common = std::gcd(step_a, step_b);
      if (step_b / common < tensor.shape[a] && step_a / common < tensor.shape[b]) return true;
    }
  }
  return false;
}

std::string AddressProblem(const DLTensor& tensor, int64_t bytes) {
  const char* address = Address(tensor);
  if (address == nullptr && Numel(tensor) != 0)
    return Describe(tensor) + " has no memory: its address is null";
  if (IsAligned(address, bytes)) return "";
  const uintptr_t rest = reinterpret_cast<uintptr_t>(address) % static_cast<uintptr_t>(bytes);
  return "expected an address that is a multiple of " + std::to_string(bytes) + ", got one that is " +
         std::to_string(rest) + " more";
}

bool StridesMatch(const DLTensor& tensor, const int64_t* expected) {
  bool match = true;
  for (int dim = 0; dim < tensor.ndim; ++dim) {
    if (tensor.shape[dim] == 0) return true;
    match &= tensor.shape[dim] == 1 || tensor.strides[dim] == expected[dim];
  }
  return match;
}

bool IsSameTensor(const DLTensor& a, const DLTensor& b) {
  return Address(a) == Address(b) && Equal(a.dtype, b.dtype) &&
         std::equal(a.shape, a.shape + a.ndim, b.shape, b.shape + b.ndim) && StridesMatch(a, b.strides);
}

const DLTensor* AsTensor(ffi::AnyView argument) {
  const TVMFFIAny any = argument.CopyToTVMFFIAny();
  if (any.type_index == TypeIndex::kTVMFFITensor) return TVMFFITensorGetDLTensorPtr(any.v_obj);
  if (any.type_index == TypeIndex::kTVMFFIDLTensorPtr) return static_cast<const DLTensor*>(any.v_ptr);
  return nullptr;
}

// With as many digits as are needed, and a point where it would look like an integer.
static std::string ShowFloat(double number) {
  char text[40];
  for (int digits = 6; digits <= 17; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, number);
    if (std::strtod(text, nullptr) == number) break;
  }
  const bool is_integer = std::strspn(text, "-0123456789") == std::strlen(text);
  return std::string(text) + (is_integer ? ".0" : "");
}

std::string DescribeArgument(ffi::AnyView argument) {
  if (const DLTensor* tensor = AsTensor(argument)) return Describe(*tensor);
  const TVMFFIAny any = argument.CopyToTVMFFIAny();
  switch (any.type_index) {
    case TypeIndex::kTVMFFINone:
      return "None";
    case TypeIndex::kTVMFFIBool:
      return any.v_int64 ? "bool True" : "bool False";
    case TypeIndex::kTVMFFIInt:
      return "int " + std::to_string(any.v_int64);
    case TypeIndex::kTVMFFIBigInt:
      return "an int of more than 64 bits";
    case TypeIndex::kTVMFFISmallStr:
    case TypeIndex::kTVMFFIStr:
      return "a string";
    case TypeIndex::kTVMFFIFloat:
      return "float " + ShowFloat(any.v_float64);
    default:
      return "an object of type " + argument.GetTypeKey();
  }
}

static bool IsNumber(ffi::AnyView argument) {
  const int32_t type = argument.CopyToTVMFFIAny().type_index;
  return type == TypeIndex::kTVMFFIBool || type == TypeIndex::kTVMFFIInt || type == TypeIndex::kTVMFFIFloat;
}

namespace {

/// One call's checks; methods return only when what they check is right.
class Binder {
 public:
  Binder(const Plan& plan, const ffi::AnyView* arguments, DLDeviceType device_type, Bound* bound)
      : plan_(plan), arguments_(arguments), device_type_(device_type), bound_(*bound) {}

  void BindAll() {
    const int num_inputs = static_cast<int>(plan_.inputs.size());
    for (int i = 0; i < num_inputs; ++i) BindInput(i);
    for (const Solution& solution : plan_.solutions) Solve(solution);
    for (int i = 0; i < num_inputs; ++i) CheckShapeAndStrides(i);
    for (const Fact& fact : plan_.facts) CheckFact(fact);
    for (const Relation& relation : plan_.relations) CheckRelation(relation);
    for (size_t i = 0; i < plan_.free_strides.size(); ++i) {
      const FreeStride& free = plan_.free_strides[i];
      bound_.key[plan_.names.symbols.size() + i] = bound_.tensors[free.input]->strides[free.dim];
    }
  }

 private:
  // Kind, dtype, rank and device; and the symbols that this input is the first to have.
  void BindInput(int i) {
    const Value& value = plan_.Input(i);
    if (!value.is_tensor) return BindScalar(i, value);
    const DLTensor* tensor = AsTensor(arguments_[i]);
    const int rank = static_cast<int>(value.shape.size());
    if (tensor == nullptr || !Equal(tensor->dtype, value.dtype)) ThrowTypeError(Mismatch(i));
    if (tensor->ndim != rank) ThrowValueError(Mismatch(i));
    if (rank > 0 && tensor->strides == nullptr)
      ThrowValueError(Argument(i) + "expected a tensor that has strides");
    bound_.tensors[i] = tensor;
    if (value.cpu) return ReadCpuTensor(i, *tensor);
    CheckDevice(i, tensor->device);
    char* address = Address(*tensor);
    const int64_t bytes = Bytes(value.dtype);
    if (address == nullptr || !IsAligned(address, bytes)) CheckAddress(i, *tensor, bytes);
    bound_.addresses[i] = address;
    for (int dim = 0; dim < rank; ++dim) {
      const int symbol = value.shape[dim].AsSymbol();
      if (symbol < 0) continue;
      const Binding& binding = plan_.bindings[symbol];
      if (binding.input == i && binding.dim == dim) bound_.key[symbol] = tensor->shape[dim];
    }
    num_bound_ = i + 1;
  }

  void CheckDevice(int i, DLDevice device) {
    const bool first = bound_.device_from < 0;
    if (device.device_type == device_type_ && (first || device.device_id == bound_.device.device_id)) {
      bound_.device = device;
      if (first) bound_.device_from = i;
      return;
    }
    std::string expected = device_type_ == kDLCPU ? "cpu" : "cuda";
    if (!first) expected = Describe(bound_.device) + " like '" + plan_.Input(bound_.device_from).name + "'";
    ThrowValueError(Argument(i) + "expected a tensor on " + expected + ", got one on " + Describe(device));
  }

  void CheckAddress(int i, const DLTensor& tensor, int64_t bytes) {
    const std::string problem = AddressProblem(tensor, bytes);
    if (!problem.empty()) ThrowValueError(Argument(i) + problem);
  }

  void ReadCpuTensor(int i, const DLTensor& tensor) {
    if (tensor.device.device_type != kDLCPU) {
      ThrowValueError(Argument(i) + "expected a tensor on cpu, got one on " + Describe(tensor.device));
    }
    CheckAddress(i, tensor, 1);  // any is good enough for bytes that are copied
    std::memcpy(&bound_.scalars[i], Address(tensor), Bytes(plan_.Input(i).dtype));
  }

  void BindScalar(int i, const Value& value) {
    const TVMFFIAny any = arguments_[i].CopyToTVMFFIAny();
    const bool is_bool = any.type_index == TypeIndex::kTVMFFIBool;
    const bool is_integer = is_bool || any.type_index == TypeIndex::kTVMFFIInt;
    const int spare = 64 - value.dtype.bits;
    if (value.dtype.code == kDLBool && is_bool) {
      bound_.scalars[i] = any.v_int64 != 0;
    } else if (IsFloating(value.dtype) && (is_integer || any.type_index == TypeIndex::kTVMFFIFloat)) {
      bound_.scalars[i] =
          FloatBits(value.dtype, is_integer ? static_cast<double>(any.v_int64) : any.v_float64);
    } else if (value.dtype.code == kDLInt && is_integer) {
      const uint64_t kept = static_cast<uint64_t>(any.v_int64) << spare;
      if (static_cast<int64_t>(kept) >> spare != any.v_int64) ThrowValueError(Mismatch(i));
      bound_.scalars[i] = kept >> spare;
    } else if (any.type_index == TypeIndex::kTVMFFIBigInt && value.dtype.code != kDLBool) {
      ThrowValueError(Mismatch(i));
    } else {
      ThrowTypeError(Mismatch(i));
    }
  }

  // The symbol that the size of a dim tells.
  void Solve(const Solution& solution) {
    const int64_t size = bound_.tensors[solution.from.input]->shape[solution.from.dim];
    const int64_t factor = solution.factor.Evaluate(bound_.environment());
    const int64_t offset = solution.offset.Evaluate(bound_.environment());
    int64_t scaled;
    if (__builtin_mul_overflow(size, solution.divisor, &scaled) ||
        __builtin_sub_overflow(scaled, offset, &scaled))
      ThrowValueError("a size exceeds 64 bits");
    const bool is_told = factor != 0 && factor != -1 ? scaled % factor == 0 : factor == -1;
    const int64_t found = !is_told ? -1 : factor == -1 ? -scaled : scaled / factor;
    if (found < 0) ThrowValueError(Untold(solution, size, factor));
    bound_.key[solution.symbol] = found;
    ++num_solved_;
  }

  // Every dim, now that all symbols have sizes.
  void CheckShapeAndStrides(int i) {
    const Value& value = plan_.Input(i);
    if (!value.is_tensor || value.cpu) return;
    const DLTensor& tensor = *bound_.tensors[i];
    const Environment environment = bound_.environment();
    bool empty = false, strides_match = true;
    for (int dim = 0; dim < tensor.ndim; ++dim) {
      const int64_t size = tensor.shape[dim];
      if (value.shape[dim].Evaluate(environment) != size) ThrowValueError(WrongSize(i, dim));
      empty |= size == 0;
      const auto& stride = value.strides[dim];
      strides_match &= !stride || size == 1 || stride->Evaluate(environment) == tensor.strides[dim];
    }
    if (!strides_match && !empty) {
      ThrowValueError(Argument(i) + "expected strides " + ExpectedStrides(value) + ", got " +
                      ShowList(tensor.strides, tensor.ndim) + " for " + Describe(tensor) +
                      StridesHint(value, tensor));
    }
  }

  void CheckFact(const Fact& fact) {
    const int64_t size = bound_.key[fact.symbol];
    std::string broken;
    if (fact.multiple_of > 1 && size % fact.multiple_of != 0)
      broken = "is not a multiple of " + std::to_string(fact.multiple_of);
    if (size < fact.min) broken = "is below the minimum of " + std::to_string(fact.min);
    if (fact.max && size > *fact.max) broken = "is above the maximum of " + std::to_string(*fact.max);
    if (broken.empty()) return;
    ThrowValueError(Argument(plan_.bindings[fact.symbol].input) + plan_.names.symbols[fact.symbol] + "=" +
                    std::to_string(size) + " " + broken);
  }

  void CheckRelation(const Relation& relation) {
    if (relation.holds.Evaluate(bound_.environment()) != 0) return;
    std::string sizes;
    for (int symbol : relation.symbols)
      sizes += (sizes.empty() ? "" : ", ") + plan_.names.symbols[symbol] + "=" +
               std::to_string(bound_.key[symbol]);
    ThrowValueError(plan_.fusion + ": expected " + relation.holds.Show(plan_.names) + ", got " + sizes);
  }

  // Messages.

  // What dim `dim` of an input is, in words.
  std::string DimIs(int i, int dim) const {
    return Argument(i) + "dim " + std::to_string(dim) + " is " + plan_.Input(i).shape[dim].Show(plan_.names);
  }

  std::string Untold(const Solution& solution, int64_t size, int64_t factor) const {
    const std::string dim = DimIs(solution.from.input, solution.from.dim);
    if (factor == 0)
      return dim + ", which does not tell " + plan_.names.symbols[solution.symbol] + " where " +
             solution.factor.Show(plan_.names) + " is 0";
    return dim + ", which " + std::to_string(size) + " cannot be";
  }

  std::string WrongSize(int i, int dim) const {
    const Formula& expected = plan_.Input(i).shape[dim];
    if (expected.IsConstant() || expected.AsSymbol() >= 0) return Mismatch(i);
    return DimIs(i, dim) + " = " + std::to_string(expected.Evaluate(bound_.environment())) + ", got " +
           std::to_string(bound_.tensors[i]->shape[dim]);
  }

  std::string Argument(int i) const {
    return plan_.fusion + ": argument " + std::to_string(i) + " '" + plan_.Input(i).name + "': ";
  }

  std::string Mismatch(int i) const {
    const Value& value = plan_.Input(i);
    const std::string dtype = Describe(value.dtype);
    const std::string expected =
        value.is_tensor ? dtype + ExpectedShape(value) : "a number of dtype " + dtype;
    return Argument(i) + "expected " + expected + ", got " + DescribeArgument(arguments_[i]) + KindHint(i);
  }

  // What to do about a tensor in the place of a number, and the other way round.
  std::string KindHint(int i) const {
    const Value& value = plan_.Input(i);
    const DLTensor* tensor = AsTensor(arguments_[i]);
    if (!value.is_tensor && tensor != nullptr && Numel(*tensor) == 1)
      return "\n  hint: .item() gives its number; or declare " + value.name + " as a tensor, " +
             Describe(*tensor);
    if (value.is_tensor && value.shape.empty() && IsNumber(arguments_[i]))
      return "\n  hint: give a tensor of it; or declare " + value.name + " as a scalar";
    return "";
  }

  // What to do about a tensor whose strides do not fit, where those of a copy would.
  std::string StridesHint(const Value& value, const DLTensor& tensor) const {
    int64_t dense = 1;
    std::string any = "false";
    for (int dim = tensor.ndim; dim-- > 0;) {
      const auto& stride = value.strides[dim];
      if (stride && tensor.shape[dim] != 1 && stride->Evaluate(bound_.environment()) != dense) return "";
      dense *= tensor.shape[dim];
      any += dim > 0 ? ", false" : "";
    }
    return "\n  hint: .contiguous() gives a copy that fits; or declare " + value.name +
           " with contiguity: [" + any + "], which takes any strides";
  }

  // "[M=7, 2*N=8, 8]": a symbol or formula shows its size once inputs have given it one.
  std::string ExpectedShape(const Value& value) const {
    std::string text = "[";
    for (size_t dim = 0; dim < value.shape.size(); ++dim) {
      const Formula& size = value.shape[dim];
      if (dim) text += ", ";
      text += size.Show(plan_.names);
      if (!size.IsConstant() && IsBound(size))
        text += "=" + std::to_string(size.Evaluate(bound_.environment()));
    }
    return text + "]";
  }

  bool IsBound(const Formula& size) const {
    for (int symbol : size.Symbols()) {
      if (plan_.bindings[symbol].input >= num_bound_ || !IsSolved(symbol)) return false;
    }
    return true;
  }

  // Whether a symbol has its size from a dim that it is alone, or its solution was found.
  bool IsSolved(int symbol) const {
    const auto is_of = [&](const Solution& solution) { return solution.symbol == symbol; };
    const auto end = plan_.solutions.end();
    return std::find_if(plan_.solutions.begin() + num_solved_, end, is_of) == end;
  }

  std::string ExpectedStrides(const Value& value) const {
    std::string text = "(";
    for (size_t dim = 0; dim < value.strides.size(); ++dim) {
      const auto& stride = value.strides[dim];
      text += (dim ? ", " : "") + (stride ? std::to_string(stride->Evaluate(bound_.environment())) : "any");
    }
    return text + (value.strides.size() == 1 ? ",)" : ")");
  }

  const Plan& plan_;
  const ffi::AnyView* arguments_;
  const DLDeviceType device_type_;
  Bound& bound_;
  int num_bound_ = 0;   // inputs before this one have given their symbols sizes
  int num_solved_ = 0;  // solutions before this one have, too
};

}  // namespace

void Bind(const Plan& plan, const ffi::AnyView* arguments, int num_arguments, DLDeviceType device_type,
          Bound* bound) {
  if (num_arguments != static_cast<int>(plan.inputs.size())) {
    std::string names;
    for (size_t i = 0; i < plan.inputs.size(); ++i)
      names += (i ? ", " : "") + plan.Input(static_cast<int>(i)).name;
    ThrowTypeError(plan.fusion + ": expected " + std::to_string(plan.inputs.size()) +
                   (plan.inputs.size() == 1 ? " argument (" : " arguments (") + names + "), got " +
                   std::to_string(num_arguments));
  }
  Binder(plan, arguments, device_type, bound).BindAll();
}

}  // namespace fusebuild
