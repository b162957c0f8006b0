#include "resolve.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "error.h"

namespace fusebuild {

namespace {

constexpr int64_t kSlotAlignment = 256;
constexpr int64_t kMaxSlotBytes = int64_t{1} << 56;  // more than any machine has
constexpr int64_t kMaxGrid[3] = {2147483647, 65535, 65535};
constexpr int64_t kMaxSharedBytes = 2147483647;
constexpr uint64_t kNoBlock = INT32_MAX;  // behind the last block that any grid has
constexpr int64_t kMaxClusterBlocks = 8;  // what every GPU with clusters has

bool GuardHolds(const Variant& variant, const Environment& environment) {
  return std::all_of(variant.guard.begin(), variant.guard.end(),
                     [&](const Formula& condition) { return condition.Evaluate(environment) != 0; });
}

void CheckChoices(const Plan& plan, const Environment& environment) {
  for (const Choice& choice : plan.choices) {
    if (choice.size.Evaluate(environment) > 0) continue;
    ThrowValueError(plan.fusion + ": " + choice.what + ": there are no elements to choose from, " +
                    choice.size_in_words);
  }
}

class Resolver {
 public:
  Resolver(const Plan& plan, const Bound& bound)
      : plan_(plan),
        bound_(bound),
        known_(plan.names),
        environment_(bound.environment(&known_)),
        resolved_(std::make_shared<Resolved>()) {}

  std::shared_ptr<Resolved> Run(std::optional<int64_t> variant) {
    const InlineBuffer<int64_t, 32>& key = bound_.key;
    resolved_->key.assign(key.data(), key.data() + key.size());
    for (const Value& value : plan_.values) CheckSizes(value);
    CheckChoices(plan_, environment_);
    AddLayouts();
    CheckAliases();
    std::vector<int64_t> bytes;
    bytes.reserve(plan_.slots.size());
    for (const Slot& slot : plan_.slots) bytes.push_back(SlotBytes(slot));
    for (const Value& value : plan_.values) CheckView(value);
    resolved_->workspace_bytes = PackSlots(plan_.slots, bytes, &resolved_->slot_offsets);
    if (variant) CheckForced(*variant);
    for (size_t first = 0, end = 0; first < plan_.segments.size(); first = end) {
      end = EndOfGroup(first);
      if (plan_.segments[first].call) AddCall(*plan_.segments[first].call);
      AddGroup(first, end, variant);
    }
    return resolved_;
  }

 private:
  // Sizes are formulas that subtract, too: a recipe can ask for N - 5 elements where N is 3.
  void CheckSizes(const Value& value) const {
    for (size_t dim = 0; dim < value.shape.size(); ++dim) {
      const int64_t size = value.shape[dim].Evaluate(environment_);
      if (size >= 0) continue;
      ThrowValueError(plan_.fusion + ": '" + value.name + "': dim " + std::to_string(dim) + " would have " +
                      std::to_string(size) + " elements");
    }
  }

  // Those of outputs, then those of owned tensors; most of these are outputs.
  void AddLayouts() {
    size_t dims = 0;
    for (const Output& output : plan_.outputs) dims += plan_.values[output.value].shape.size();
    for (const Owned& owned : plan_.owned) dims += plan_.values[owned.value].shape.size();
    resolved_->sizes.resize(2 * dims);
    resolved_->outputs.reserve(plan_.outputs.size());
    resolved_->owned.reserve(plan_.owned.size());
    int64_t* room = resolved_->sizes.data();
    for (const Output& output : plan_.outputs)
      resolved_->outputs.push_back(LayoutOf(plan_.values[output.value], &room));
    for (const Owned& owned : plan_.owned) {
      const Layout* known = OutputLayout(owned.value);
      resolved_->owned.push_back(known ? *known : LayoutOf(plan_.values[owned.value], &room));
    }
  }

  // The layout of an output that is `value`; null where none is.
  const Layout* OutputLayout(int value) const {
    for (size_t i = 0; i < plan_.outputs.size(); ++i) {
      if (plan_.outputs[i].value == value) return &resolved_->outputs[i];
    }
    return nullptr;
  }

  // The layout of `value`, whose sizes are put into `*room`: two for each dim, behind which `*room` is then.
  Layout LayoutOf(const Value& value, int64_t** room) const {
    const size_t rank = value.shape.size();
    int64_t *shape = *room, *strides = shape + rank;
    *room = strides + rank;
    int64_t dense = 1, last = 0;
    bool empty = false, contiguous = true;
    for (size_t dim = 0; dim < rank; ++dim) {
      shape[dim] = value.shape[dim].Evaluate(environment_);
      empty |= shape[dim] == 0;
    }
    for (size_t dim = rank; dim-- > 0;) {
      const int64_t size = shape[dim];
      const auto& stride = value.strides[dim];
      // The stride of a dim of one element is free to choose; row-major is what callers expect to see.
      strides[dim] = empty || size == 1 || !stride ? dense : stride->Evaluate(environment_);
      contiguous &= strides[dim] == dense;
      int64_t reach = 0;
      if (!empty && (__builtin_mul_overflow(size - 1, strides[dim], &reach) ||
                     __builtin_add_overflow(last, reach, &last)))
        ThrowValueError("a size exceeds 64 bits");
      if (reach < 0)
        ThrowValueError(plan_.fusion + ": '" + value.name + "' has elements before its first: stride " +
                        std::to_string(strides[dim]));
      if (size > 0 && __builtin_mul_overflow(dense, size, &dense)) ThrowValueError("a size exceeds 64 bits");
    }
    return {tvm::ffi::ShapeView(shape, rank), tvm::ffi::ShapeView(strides, rank), empty ? 0 : last + 1,
            contiguous};
  }

  // Bytes from the first element of `value` to the end of its last. Strides that only the caller knows are
  // checked with its tensor, and count here as if there were no gaps.
  int64_t StorageBytes(const Value& value) const {
    InlineBuffer<int64_t, 16> sizes(2 * value.shape.size());
    int64_t *room = sizes.data(), bytes = 0;
    if (__builtin_mul_overflow(LayoutOf(value, &room).storage, int64_t{Bytes(value.dtype)}, &bytes))
      ThrowValueError("a size exceeds 64 bits");
    return bytes;
  }

  int64_t SlotBytes(const Slot& slot) const {
    const int64_t bytes = slot.bytes.Evaluate(environment_);
    const int64_t needed = slot.value < 0 ? 0 : StorageBytes(plan_.values[slot.value]);
    if (bytes >= needed && bytes <= kMaxSlotBytes) return bytes;
    ThrowValueError(plan_.fusion + ": workspace slot " + std::to_string(slot.id) + " has " +
                    std::to_string(bytes) + " bytes, expected " + std::to_string(needed) + " to " +
                    std::to_string(kMaxSlotBytes));
  }

  void CheckView(const Value& value) const {
    const Value& root = plan_.values[value.root];
    if (&root == &value || !value.is_tensor || !root.is_tensor) return;
    if (std::find(root.strides.begin(), root.strides.end(), std::nullopt) != root.strides.end()) return;
    const int64_t bytes = StorageBytes(value), room = StorageBytes(root);
    if (bytes <= room) return;
    ThrowValueError(plan_.fusion + ": '" + value.name + "' takes " + std::to_string(bytes) +
                    " bytes, and is a view of '" + root.name + "', which has " + std::to_string(room));
  }

  // Whether some tensor has no elements, so that a kernel may have nothing to do or no scratch to need.
  bool SomethingIsEmpty() const {
    return std::any_of(plan_.values.begin(), plan_.values.end(), [&](const Value& value) {
      return std::any_of(value.shape.begin(), value.shape.end(),
                         [&](const Formula& size) { return size.Evaluate(environment_) == 0; });
    });
  }

  void CheckNothingToDo(const Segment& segment, const Variant& variant) const {
    if (SomethingIsEmpty()) return;
    ThrowValueError(plan_.fusion + ": segment " + std::to_string(segment.id) + ": variant '" + variant.name +
                    "' launches nothing, and no tensor is empty");
  }

  void CheckSlotOf(const Launch& launch, const Arg& arg) const {
    const int slot = arg.index - plan_.SlotAddress(0);
    if (arg.kind != Arg::Kind::kAddress || slot < 0) return;
    if (plan_.slots[slot].bytes.Evaluate(environment_) > 0 || SomethingIsEmpty()) return;
    ThrowValueError(plan_.fusion + ": kernel " + plan_.kernels[launch.kernel] + ": workspace slot " +
                    std::to_string(plan_.slots[slot].id) + " has no bytes");
  }

  void CheckAliases() const {
    for (size_t i = 0; i < plan_.outputs.size(); ++i) {
      const Output& output = plan_.outputs[i];
      if (output.kind != OutputKind::kAlias) continue;
      const DLTensor& input = *bound_.tensors[output.source];
      const tvm::ffi::ShapeView shape = resolved_->outputs[i].shape;
      if (std::equal(shape.begin(), shape.end(), input.shape, input.shape + input.ndim)) continue;
      ThrowValueError(plan_.fusion + ": argument " + std::to_string(output.source) + " '" +
                      plan_.Input(output.source).name + "': expected the shape of output '" +
                      plan_.values[output.value].name + "' " + ShowList(shape.data(), shape.size()) +
                      ", got " + ShowList(input.shape, input.ndim));
    }
  }

  void CheckForced(int64_t index) const {
    size_t most = 0;
    for (const Segment& segment : plan_.segments) most = std::max(most, segment.variants.size());
    if (index < 0 || static_cast<size_t>(index) >= most) {
      ThrowValueError(plan_.fusion + ": variant " + std::to_string(index) +
                      " does not exist: no segment has more than " + std::to_string(most));
    }
  }

  const Variant& Choose(const Segment& segment, std::optional<int64_t> forced) const {
    if (forced && static_cast<size_t>(*forced) < segment.variants.size()) {
      const Variant& variant = segment.variants[*forced];
      if (GuardHolds(variant, environment_)) return variant;
      ThrowValueError(plan_.fusion + ": segment " + std::to_string(segment.id) + ": variant " +
                      std::to_string(*forced) + " '" + variant.name +
                      "' does not fit these inputs: its guard is false");
    }
    for (const Variant& variant : segment.variants) {
      if (GuardHolds(variant, environment_)) return variant;
    }
    ThrowValueError(plan_.fusion + ": segment " + std::to_string(segment.id) +
                    ": no variant fits these inputs");
  }

  // The segment behind the last one of the group that begins with segment `first`.
  size_t EndOfGroup(size_t first) const {
    const std::vector<Segment>& segments = plan_.segments;
    size_t end = first + 1;
    while (end < segments.size() && segments[first].group && segments[end].group == segments[first].group)
      ++end;
    return end;
  }

  // The launches of the segments from `first` to before `end`, none of which waits for another: the first of
  // each, then the second of each, and so on.
  void AddGroup(size_t first, size_t end, std::optional<int64_t> forced) {
    std::vector<const Variant*> chosen(end - first);
    size_t most = 0;
    for (size_t i = 0; i < chosen.size(); ++i) {
      const Segment& segment = plan_.segments[first + i];
      chosen[i] = segment.variants.empty() ? nullptr : &Choose(segment, forced);  // a call, or views only
      if (chosen[i] == nullptr) continue;
      MakeRoomFor(*chosen[i]);
      if (!chosen[i]->launches.empty() && !LaunchesSomething(*chosen[i]))
        CheckNothingToDo(segment, *chosen[i]);
      most = std::max(most, chosen[i]->launches.size());
    }
    for (size_t stage = 0; stage < most; ++stage) {
      std::vector<const Launch*> launches;
      for (const Variant* variant : chosen) {
        if (variant == nullptr || stage >= variant->launches.size()) continue;
        const Launch& launch = variant->launches[stage];
        launch.members > 0 ? launches.push_back(&launch) : AddLaunch(launch);
      }
      AddSideBySide(launches);
    }
  }

  bool LaunchesSomething(const Variant& variant) const {
    return std::any_of(variant.launches.begin(), variant.launches.end(), [&](const Launch& launch) {
      return std::all_of(launch.grid, launch.grid + 3,
                         [&](const Formula& size) { return size.Evaluate(environment_) != 0; });
    });
  }

  // Launches whose kernels take tables: those of one kernel as one, or as few as tables and a grid have room
  // for.
  void AddSideBySide(std::vector<const Launch*> waiting) {
    while (!waiting.empty()) {
      const Launch& first = *waiting.front();
      std::vector<const Launch*> taken, others;
      int64_t blocks = 0;
      for (const Launch* launch : waiting) {
        const int64_t own = launch->grid[0].Evaluate(environment_);
        if (own == 0) continue;
        if (own < 0 || own > kMaxGrid[0]) CheckLaunch(*launch, Sized(*launch));
        const bool has_room =
            static_cast<int64_t>(taken.size()) < first.members && own <= kMaxGrid[0] - blocks;
        const bool goes_along = has_room && IsAlike(*launch, first);
        if (goes_along) blocks += own;
        (goes_along ? taken : others).push_back(launch);
      }
      if (!taken.empty()) AddTable(taken, blocks);
      waiting = std::move(others);
    }
  }

  static bool IsAlike(const Launch& launch, const Launch& other) {
    return launch.kernel == other.kernel && std::equal(launch.block, launch.block + 3, other.block);
  }

  // One launch of so many `blocks` for all of `members`, with their table (members.cuh).
  void AddTable(const std::vector<const Launch*>& members, int64_t blocks) {
    const Launch& first = *members.front();
    ResolvedLaunch result = Sized(first);
    result.grid[0] = blocks;
    CheckLaunch(first, result);
    std::vector<uint64_t>& values = resolved_->values;
    values.resize(values.size() + first.members, kNoBlock);
    int64_t begin = 0;
    for (size_t i = 0; i < members.size(); ++i) {
      values[result.first_value + i] = static_cast<uint64_t>(begin);
      begin += members[i]->grid[0].Evaluate(environment_);
    }
    for (const Launch* member : members) AddArgs(*member);
    result.num_values = static_cast<size_t>(first.members) * (first.args.size() + 1);
    values.resize(result.first_value + result.num_values);
    resolved_->launches.push_back(result);
  }

  // Room for all that launches of `variant` may add.
  void MakeRoomFor(const Variant& variant) {
    size_t args = 0;
    for (const Launch& launch : variant.launches) args += launch.args.size() + (launch.members > 0);
    resolved_->launches.reserve(resolved_->launches.size() + variant.launches.size());
    resolved_->values.reserve(resolved_->values.size() + args);
    resolved_->patches.reserve(resolved_->patches.size() + args);
  }

  // Adds nothing where there is nothing to launch.
  void AddLaunch(const Launch& launch) {
    const ResolvedLaunch result = Sized(launch);
    if (std::find(result.grid, result.grid + 3, 0) != result.grid + 3) return;
    CheckLaunch(launch, result);
    AddArgs(launch);
    resolved_->launches.push_back(result);
  }

  // `launch` in numbers; its arguments are still to be added.
  ResolvedLaunch Sized(const Launch& launch) const {
    ResolvedLaunch result{launch.kernel,
                          {},
                          {},
                          launch.shared_bytes.Evaluate(environment_),
                          launch.cluster.Evaluate(environment_),
                          resolved_->values.size(),
                          launch.args.size(),
                          launch.overlaps};
    for (int dim = 0; dim < 3; ++dim) {
      result.grid[dim] = launch.grid[dim].Evaluate(environment_);
      result.block[dim] = launch.block[dim];
    }
    return result;
  }

  void CheckLaunch(const Launch& launch, const ResolvedLaunch& result) const {
    for (int dim = 0; dim < 3; ++dim) {
      if (result.grid[dim] >= 1 && result.grid[dim] <= kMaxGrid[dim]) continue;
      ThrowValueError(plan_.fusion + ": kernel " + plan_.kernels[launch.kernel] + ": grid " +
                      ShowList(result.grid, 3) + " exceeds the largest, " + ShowList(kMaxGrid, 3));
    }
    if (result.shared_bytes < 0 || result.shared_bytes > kMaxSharedBytes) {
      ThrowValueError(plan_.fusion + ": kernel " + plan_.kernels[launch.kernel] + ": " +
                      std::to_string(result.shared_bytes) + " bytes of shared memory, expected 0 to " +
                      std::to_string(kMaxSharedBytes));
    }
    if (result.cluster < 1 || result.cluster > kMaxClusterBlocks || result.grid[1] % result.cluster != 0) {
      ThrowValueError(plan_.fusion + ": kernel " + plan_.kernels[launch.kernel] + ": grid " +
                      ShowList(result.grid, 3) + " has no whole clusters of " +
                      std::to_string(result.cluster) + " blocks, expected 1 to " +
                      std::to_string(kMaxClusterBlocks));
    }
  }

  void AddArgs(const Launch& launch) {
    for (const Arg& arg : launch.args) {
      CheckSlotOf(launch, arg);
      AddArg(arg);
    }
  }

  struct BatchWalk {
    int64_t extent, a_stride, b_stride;
  };

  void AddCall(const LibraryCall& call) {
    const int64_t m = call.m.Evaluate(environment_), n = call.n.Evaluate(environment_);
    bool empty = m == 0 || n == 0;
    std::vector<BatchWalk> dims;  // outermost first; neighbours that one step walks are one
    for (const BatchDim& dim : call.batch) {
      const BatchWalk next{dim.extent.Evaluate(environment_), dim.a_stride.Evaluate(environment_),
                           dim.b_stride.Evaluate(environment_)};
      empty |= next.extent == 0;
      if (next.extent == 1) continue;
      BatchWalk* last = dims.empty() ? nullptr : &dims.back();
      if (last != nullptr && last->a_stride == next.extent * next.a_stride &&
          last->b_stride == next.extent * next.b_stride) {
        *last = {last->extent * next.extent, next.a_stride, next.b_stride};
      } else {
        dims.push_back(next);
      }
    }
    if (empty) return;
    const BatchWalk inner = dims.empty() ? BatchWalk{1, 0, 0} : dims.back();
    if (!dims.empty()) dims.pop_back();
    const Product product{call.dtype,
                          call.transpose_a,
                          call.transpose_b,
                          call.epilogue,
                          m,
                          n,
                          call.k.Evaluate(environment_),
                          inner.extent,
                          call.lda.Evaluate(environment_),
                          call.ldb.Evaluate(environment_),
                          inner.a_stride,
                          inner.b_stride};
    resolved_->products.push_back({product, call.a, call.b, call.bias, call.residual, call.out,
                                   Parts(dims, inner.extent * product.out_size()),
                                   resolved_->launches.size()});
  }

  // Every point of `dims`, in order. Each part of the batch writes `size` elements.
  static std::vector<ProductOffsets> Parts(const std::vector<BatchWalk>& dims, int64_t size) {
    std::vector<ProductOffsets> parts = {{0, 0, 0}};
    for (const BatchWalk& dim : dims) {
      std::vector<ProductOffsets> longer;
      for (const ProductOffsets& part : parts) {
        for (int64_t i = 0; i < dim.extent; ++i)
          longer.push_back({part.a + i * dim.a_stride, part.b + i * dim.b_stride, 0});
      }
      parts = std::move(longer);
    }
    for (size_t i = 0; i < parts.size(); ++i) parts[i].out = static_cast<int64_t>(i) * size;
    return parts;
  }

  void AddArg(const Arg& arg) {
    uint64_t value = 0;
    switch (arg.kind) {
      case Arg::Kind::kFormula:
        value = static_cast<uint64_t>(arg.formula.Evaluate(environment_));
        break;
      case Arg::Kind::kFreeStride:
        value = static_cast<uint64_t>(bound_.key[plan_.names.symbols.size() + arg.index]);
        break;
      case Arg::Kind::kAddress:
      case Arg::Kind::kScalar:
        resolved_->patches.push_back({resolved_->values.size(), arg.kind == Arg::Kind::kScalar, arg.index});
    }
    resolved_->values.push_back(value);
  }

  const Plan& plan_;
  const Bound& bound_;
  Known known_;
  const Environment environment_;
  std::shared_ptr<Resolved> resolved_;
};

}  // namespace

std::shared_ptr<Resolved> Resolve(const Plan& plan, const Bound& bound, std::optional<int64_t> variant) {
  return Resolver(plan, bound).Run(variant);
}

std::vector<std::vector<int64_t>> ValidVariants(const Plan& plan, const Bound& bound) {
  Known known(plan.names);
  const Environment environment = bound.environment(&known);
  CheckChoices(plan, environment);
  std::vector<std::vector<int64_t>> valid;
  for (const Segment& segment : plan.segments) {
    valid.emplace_back();
    for (size_t i = 0; i < segment.variants.size(); ++i) {
      if (GuardHolds(segment.variants[i], environment)) valid.back().push_back(static_cast<int64_t>(i));
    }
  }
  return valid;
}

int64_t PackSlots(const std::vector<Slot>& slots, const std::vector<int64_t>& bytes,
                  std::vector<int64_t>* offsets) {
  std::vector<size_t> order(slots.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return bytes[a] > bytes[b]; });
  offsets->assign(slots.size(), 0);
  std::vector<size_t> placed;  // by offset
  int64_t total = 0;
  for (size_t slot : order) {
    if (bytes[slot] <= 0) continue;
    const int64_t size = (bytes[slot] + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
    int64_t offset = 0;
    for (size_t other : placed) {
      if (slots[other].last < slots[slot].first || slots[slot].last < slots[other].first) continue;
      if (offset + size <= (*offsets)[other]) break;  // fits into the gap before `other`
      offset = std::max(
          offset, ((*offsets)[other] + bytes[other] + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment);
    }
    (*offsets)[slot] = offset;
    auto after = [&](int64_t value, size_t other) { return value < (*offsets)[other]; };
    placed.insert(std::upper_bound(placed.begin(), placed.end(), offset, after), slot);
    if (offset > kMaxSlotBytes) ThrowValueError("the workspace exceeds 64 bits");
    total = std::max(total, offset + size);
  }
  return total;
}

uint64_t ResolvedCache::Hash(const int64_t* key, size_t size) {
  uint64_t hash = 0x9e3779b97f4a7c15;
  for (size_t i = 0; i < size; ++i) {
    hash = (hash ^ static_cast<uint64_t>(key[i])) * 0xff51afd7ed558ccd;
    hash ^= hash >> 32;
  }
  return hash;
}

std::shared_ptr<const Resolved> ResolvedCache::Find(const InlineBuffer<int64_t, 32>& key) const {
  const uint64_t hash = Hash(key.data(), key.size());
  std::shared_lock lock(mutex_);
  auto found = entries_.find(hash);
  if (found == entries_.end()) return nullptr;
  if (std::memcmp(found->second->key.data(), key.data(), key.size() * sizeof(int64_t)) != 0) return nullptr;
  return found->second;
}

void ResolvedCache::Insert(std::shared_ptr<const Resolved> resolved) {
  const uint64_t hash = Hash(resolved->key.data(), resolved->key.size());
  std::unique_lock lock(mutex_);
  if (entries_.size() >= kCapacity) entries_.clear();
  entries_[hash] = std::move(resolved);
}

}  // namespace fusebuild
