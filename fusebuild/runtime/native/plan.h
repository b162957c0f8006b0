// The plan as flat structs: fusebuild/artifact/plan.py after all names are resolved to indices. Read once,
// then immutable.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dtype.h"
#include "formula.h"
#include "product.h"

namespace fusebuild {

/// An input, output or intermediate. `address` is where a call keeps the tensor's address, -1 for what has
/// none.
struct Value {
  int64_t fid;
  std::string name;
  bool is_tensor;
  bool cpu;  // a zero-dim tensor in host memory, passed to kernels by value
  DLDataType dtype;
  std::vector<Formula> shape;
  std::vector<std::optional<Formula>> strides;  // none: the caller's, read at run time
  int address = -1;
  int root = -1;  // the value whose memory it shares, by alias segments' views: itself where it is no view
};

/// What the recipe promises about a symbol.
struct Fact {
  int symbol;
  int64_t multiple_of, min;
  std::optional<int64_t> max;
};

/// An op that says which element of a dim it is, so that there has to be one.
struct Choice {
  std::string what;  // the op and the dim, in words
  Formula size;
  std::string size_in_words;  // where it is 0
};

/// A comparison of sizes that the recipe promises.
struct Relation {
  Formula holds;
  std::vector<int> symbols;  // those in it, each once
};

/// Where the sizes of one symbol come from: the first input dim that is just that symbol, or the dim of its
/// solution.
struct Binding {
  int input = -1, dim = -1;
};

/// How a symbol that no dim is alone is found: `factor * symbol + offset` is `divisor` times the size of a
/// dim.
struct Solution {
  int symbol;
  Binding from;
  int64_t divisor;
  Formula factor, offset;
};

/// A dim of an input whose stride the caller chooses.
struct FreeStride {
  int input, dim;
};

enum class OutputKind : uint8_t {
  kAlias,      // overwrites the memory of input `source`; the caller already has that tensor
  kInputView,  // shares the memory of input `source`
  kOwned,      // lives in owned tensor `source`, as itself or as a view
};

struct Output {
  int value;
  OutputKind kind;
  int source;
};

/// A tensor that a call allocates because an output lives in it. `given_by` is the one output whose `out=`
/// may replace it, -1 when several outputs share it.
struct Owned {
  int value;
  int given_by;
};

struct Arg {
  enum class Kind : uint8_t { kAddress, kScalar, kFormula, kFreeStride } kind;
  int index = 0;  // of the address, the input, or the free stride
  Formula formula;
  std::string type;  // as a kernel's object describes a parameter: "p8", "i8", "f4" and so on
};

struct Launch {
  int kernel;
  Formula grid[3];
  int32_t block[3];
  Formula shared_bytes, cluster;  // blocks that run together, neighbours along y
  std::vector<Arg> args;
  bool overlaps = false;  // may begin before what is before it has ended; its kernel waits for that
  int64_t members = 0;    // its kernel takes the arguments of so many launches in a table; 0: its own alone
};

struct Variant {
  std::string name;
  std::vector<Formula> guard;
  std::vector<Launch> launches;
};

/// A dim that a batch of matrix products runs along; the strides lead from one matrix to the next, in
/// elements.
struct BatchDim {
  Formula extent, a_stride, b_stride;
};

/// A matrix product that a library computes, as product.h has it, for every point of `batch`. The operands
/// are addresses, `bias` and `residual` are -1 where there is none.
struct LibraryCall {
  DLDataType dtype;
  bool transpose_a, transpose_b;
  Epilogue epilogue;
  int a, b, bias, residual, out;
  Formula m, n, k, lda, ldb;
  std::vector<BatchDim> batch;
};

/// What runs is a variant's launches, or a library call, or nothing where there are only views. None of those
/// of one group, which are neighbours, waits for another.
struct Segment {
  int64_t id;
  std::optional<int64_t> group;
  std::vector<Variant> variants;
  std::optional<LibraryCall> call;
};

/// A piece of the workspace, live from segment `first` to segment `last` inclusive.
struct Slot {
  int64_t id;
  Formula bytes;
  int64_t first, last;
  int value = -1;  // the value that lives in it, -1 for scratch and where the value lives elsewhere
};

/// A call keeps its addresses in one array: the inputs', then the owned tensors', then the workspace slots'.
struct Plan {
  std::string fusion, target;
  Names names;
  std::vector<Value> values;
  std::vector<Fact> facts;
  std::vector<Choice> choices;
  std::vector<Relation> relations;
  std::vector<Solution> solutions;  // in the order in which they are found
  std::vector<int> inputs;          // indices into values
  std::vector<Binding> bindings;    // one per symbol
  int multiprocessors = -1;         // the symbol that has the device's number of them, -1 where nothing asks
  std::vector<FreeStride> free_strides;
  std::vector<Output> outputs;
  std::vector<Owned> owned;
  std::vector<Segment> segments;
  std::vector<Slot> slots;
  std::vector<std::string> kernels;      // names, in order of first use
  std::vector<bool> kernel_uses_shared;  // whether it has dynamic shared memory, which with static may exceed
                                         // the default 48 KiB
  std::vector<std::string> kernel_parameters;  // the types of the arguments that it is launched with
  std::vector<int> alignment_addresses;        // one per names.alignments
  std::vector<std::vector<FreeStride>> alignment_strides;  // of the same tensors

  int OwnedAddress(int owned) const { return static_cast<int>(inputs.size()) + owned; }
  int SlotAddress(int slot) const { return static_cast<int>(inputs.size() + owned.size()) + slot; }
  int NumAddresses() const { return SlotAddress(static_cast<int>(slots.size())); }
  const Value& Input(int position) const { return values[inputs[position]]; }
};

/// Reads the plan of `target` from plan.json; throws ValueError, located, for anything that cannot be run.
Plan ReadPlan(const std::string& json, const std::string& target);

}  // namespace fusebuild
