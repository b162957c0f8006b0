// From checked arguments to launches: which variant of each segment, with which grid, sizes and memory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend.h"
#include "bind.h"
#include "plan.h"
#include "product.h"

namespace fusebuild {

/// The layout of an owned tensor or of an output. Its sizes lie elsewhere.
struct Layout {
  tvm::ffi::ShapeView shape, strides;
  int64_t storage;  // elements from the first to the last, inclusive
  bool contiguous;  // row-major without gaps
};

struct ResolvedLaunch {
  int kernel;
  int64_t grid[3];
  int32_t block[3];
  int64_t shared_bytes, cluster;
  size_t first_value, num_values;  // its part of Resolved::values
  bool overlaps;                   // what is before it
};

/// Elements between the first product of a part of a batch and the whole batch's first.
struct ProductOffsets {
  int64_t a, b, out;
};

/// A library call in numbers. A batch that one step cannot walk falls into parts, which are alike.
struct ResolvedProduct {
  Product product;
  int a, b, bias, residual, out;  // addresses, -1 for what there is none of
  std::vector<ProductOffsets> parts;
  size_t launches_before;  // how many of Resolved::launches run first
};

/// A value that differs from call to call: an address, or a scalar of the caller.
struct Patch {
  size_t value;
  bool is_scalar;
  int index;
};

/// Everything about a call that follows from its key alone, so that calls of equal key share one. Immutable,
/// but for what a backend keeps.
struct Resolved {
  std::vector<int64_t> key;
  std::vector<Layout> outputs, owned;
  std::vector<int64_t> sizes;         // of these layouts, whose views are of it
  std::vector<int64_t> slot_offsets;  // bytes from the start of the workspace, multiples of 256
  int64_t workspace_bytes = 0;
  std::vector<ResolvedLaunch> launches;   // launches with an empty grid are left out
  std::vector<ResolvedProduct> products;  // those with an empty result are left out
  std::vector<uint64_t> values;  // all launches' arguments, 8 bytes each, addresses and scalars still 0
  std::vector<Patch> patches;
  std::unique_ptr<Repeated> repeated;  // the backend's, null where nothing is launched or a library is called
};

/// Resolves a call. `variant` forces that index in every segment that has it; throws ValueError when its
/// guard is false or no segment has it, when no variant fits, or when a grid exceeds the largest.
std::shared_ptr<Resolved> Resolve(const Plan& plan, const Bound& bound, std::optional<int64_t> variant);

/// For each segment, the indices of the variants whose guards hold.
std::vector<std::vector<int64_t>> ValidVariants(const Plan& plan, const Bound& bound);

/// Offsets of the slots in one allocation by first fit, the largest first; slots that live at the same time
/// do not overlap. `bytes` is per slot; the total is returned.
int64_t PackSlots(const std::vector<Slot>& slots, const std::vector<int64_t>& bytes,
                  std::vector<int64_t>* offsets);

/// Resolved calls by key. Many threads may use it at once. Emptied when it holds kCapacity entries: a program
/// with that many live shapes pays a few microseconds again for each, and memory stays bounded.
class ResolvedCache {
 public:
  static constexpr size_t kCapacity = 4096;

  std::shared_ptr<const Resolved> Find(const InlineBuffer<int64_t, 32>& key) const;
  void Insert(std::shared_ptr<const Resolved> resolved);

 private:
  static uint64_t Hash(const int64_t* key, size_t size);

  mutable std::shared_mutex mutex_;
  std::unordered_map<uint64_t, std::shared_ptr<const Resolved>> entries_;
};

}  // namespace fusebuild
