#include "plan.h"

#include <algorithm>
#include <map>

#include "error.h"

namespace fusebuild {
namespace {

/// What a table of arguments may take (fusebuild/artifact/plan.py).
constexpr int64_t kMostTableBytes = 32760;

/// Reads one plan. The order of the steps matters: values before what names them, memory before args.
class Reader {
 public:
  Reader(const Json& root, const std::string& target) : root_(root) {
    plan_.fusion = root["fusion"].String();
    plan_.target = target;
  }

  Plan Read() {
    ReadValues();
    ReadInputs();
    const Json target = FindTarget();
    AssignMemory(target);
    for (const Json& segment : target["segments"].Items()) ReadSegment(segment);
    AnswerAlignments();
    for (const Json& fact : root_["facts"].Items()) ReadFact(fact);
    if (root_.Has("relations")) {
      for (const Json& relation : root_["relations"].Items()) ReadRelation(relation);
    }
    if (root_.Has("choices")) {
      for (const Json& choice : root_["choices"].Items()) ReadChoice(choice);
    }
    CheckSymbols();
    return std::move(plan_);
  }

 private:
  Formula Compile(const Json& json) { return Formula::Compile(json, &plan_.names); }

  int ValueIndex(const Json& fid) const {
    auto found = index_of_.find(fid.Int());
    if (found == index_of_.end()) fid.Fail("no value has fid " + std::to_string(fid.Int()));
    return found->second;
  }

  const Value& ValueOf(const Json& fid) const { return plan_.values[ValueIndex(fid)]; }

  /// The position among the inputs of the value `fid` names, or -1.
  int InputPosition(int value) const {
    auto found = std::find(plan_.inputs.begin(), plan_.inputs.end(), value);
    return found == plan_.inputs.end() ? -1 : static_cast<int>(found - plan_.inputs.begin());
  }

  void ReadValues() {
    for (const Json& json : root_["values"].Items()) {
      const std::string kind = json["kind"].String();
      if (kind != "tensor" && kind != "scalar")
        json["kind"].Fail("expected tensor or scalar, got '" + kind + "'");
      const std::optional<DLDataType> dtype = FindDType(json["dtype"].String());
      if (!dtype) json["dtype"].Fail("unknown dtype '" + json["dtype"].String() + "'");
      Value value{
          json["fid"].Int(), json["name"].String(), kind == "tensor", json["cpu"].Bool(), *dtype, {}, {}};
      for (const Json& extent : json["shape"].Items()) value.shape.push_back(Compile(extent));
      const std::vector<Json> strides = json["strides"].Items();
      for (const Json& stride : strides) {
        value.strides.push_back(stride.IsNull() ? std::nullopt : std::optional(Compile(stride)));
      }
      if (strides.empty()) MakeContiguous(&value);
      if (value.strides.size() != value.shape.size()) json.Fail("as many strides as dims are needed");
      if (value.cpu && !value.shape.empty()) json.Fail("a cpu tensor has no dims");
      if (!index_of_.emplace(value.fid, static_cast<int>(plan_.values.size())).second) {
        json.Fail("fid " + std::to_string(value.fid) + " is taken twice");
      }
      plan_.values.push_back(std::move(value));
    }
  }

  void MakeContiguous(Value* value) {
    value->strides.resize(value->shape.size());
    for (size_t dim = 0; dim < value->shape.size(); ++dim) {
      value->strides[dim] = Formula::Product(value->shape, dim + 1, &plan_.names);
    }
  }

  void ReadInputs() {
    for (const Json& fid : root_["inputs"].Items()) {
      const int position = static_cast<int>(plan_.inputs.size());
      const int index = ValueIndex(fid);
      if (InputPosition(index) >= 0) fid.Fail("an input is listed twice");
      plan_.inputs.push_back(index);
      Value& value = plan_.values[index];
      if (value.is_tensor && !value.cpu) value.address = position;
      for (size_t dim = 0; dim < value.shape.size(); ++dim) {
        const int symbol = value.shape[dim].AsSymbol();
        if (symbol >= 0) Bind(symbol, {position, static_cast<int>(dim)});
        if (!value.strides[dim]) plan_.free_strides.push_back({position, static_cast<int>(dim)});
      }
    }
    for (const Json& json : root_["extents"].Items()) {
      const Value& input = ValueOf(json["input"]);
      const int64_t dim = json["dim"].Int();
      if (dim < 0 || dim >= static_cast<int64_t>(input.shape.size())) json["dim"].Fail("no such dim");
      extents_.emplace(json["fid"].Int(), input.shape[dim]);
    }
    if (!root_.Has("solutions")) return;
    for (const Json& json : root_["solutions"].Items()) ReadSolution(json);
  }

  void ReadSolution(const Json& json) {
    const int symbol = plan_.names.Symbol(json["symbol"].String());
    const int input = InputPosition(ValueIndex(json["input"]));
    const int64_t dim = json["dim"].Int();
    if (input < 0) json["input"].Fail("expected an input");
    if (dim < 0 || dim >= static_cast<int64_t>(plan_.Input(input).shape.size()))
      json["dim"].Fail("no such dim");
    if (IsBound(symbol)) json["symbol"].Fail("its size is known already");
    Solution solution{symbol,
                      {input, static_cast<int>(dim)},
                      json["divisor"].Int(),
                      Compile(json["factor"]),
                      Compile(json["offset"])};
    if (solution.divisor < 1) json["divisor"].Fail("expected a positive number");
    for (const Formula& formula : {solution.factor, solution.offset}) {
      for (int other : formula.Symbols()) {
        if (!IsBound(other))
          json.Fail("the size of '" + plan_.names.symbols[other] + "' is not known before");
      }
    }
    Bind(symbol, solution.from);
    plan_.solutions.push_back(std::move(solution));
  }

  bool IsBound(int symbol) const {
    return static_cast<size_t>(symbol) < plan_.bindings.size() && plan_.bindings[symbol].input >= 0;
  }

  void Bind(int symbol, Binding binding) {
    if (plan_.bindings.size() <= static_cast<size_t>(symbol)) plan_.bindings.resize(symbol + 1);
    if (plan_.bindings[symbol].input < 0) plan_.bindings[symbol] = binding;
  }

  Json FindTarget() const {
    for (const Json& json : root_["targets"].Items()) {
      if (json["target"].String() == plan_.target) return json;
    }
    root_["targets"].Fail("no plan for target '" + plan_.target + "'");
  }

  void ReadFact(const Json& json) {
    auto& symbols = plan_.names.symbols;
    auto found = std::find(symbols.begin(), symbols.end(), json["symbol"].String());
    if (found == symbols.end()) return;  // a promise about a symbol that nothing uses binds nobody
    const Json max = json["max"];
    Fact fact{static_cast<int>(found - symbols.begin()), json["multiple_of"].Int(), json["min"].Int(),
              max.IsNull() ? std::nullopt : std::optional(max.Int())};
    if (fact.multiple_of < 1) json["multiple_of"].Fail("expected a positive number");
    plan_.facts.push_back(fact);
  }

  void ReadRelation(const Json& json) {
    Relation relation{Compile(json), {}};
    for (int symbol : relation.holds.Symbols()) {
      auto& known = relation.symbols;
      if (std::find(known.begin(), known.end(), symbol) == known.end()) known.push_back(symbol);
    }
    plan_.relations.push_back(std::move(relation));
  }

  void ReadChoice(const Json& json) {
    const std::string dim = "dim " + std::to_string(json["dim"].Int());
    const Json size = json["size"];
    plan_.choices.push_back({json["op"].String() + " over " + dim + " of '" + json["operand"].String() + "'",
                             Compile(size), size.IsString() ? size.String() + "=0" : "its size is 0"});
  }

  // Memory. Every tensor is its own root or, by alias segments' `views`, shares its root's memory. A root
  // lives in an input, in a tensor that the call allocates because an output needs it, or in a workspace
  // slot.

  int Root(int value) const {
    for (size_t steps = 0; steps <= views_.size(); ++steps) {
      auto found = views_.find(value);
      if (found == views_.end()) return value;
      value = found->second;
    }
    root_.Fail("the views of value '" + plan_.values[value].name + "' form a circle");
  }

  void AssignMemory(const Json& target) {
    for (const Json& segment : target["segments"].Items()) {
      for (const auto& [view, source] : segment["views"].IntegerKeys()) {
        auto found = index_of_.find(view);
        if (found == index_of_.end()) source.Fail("no value has fid " + std::to_string(view));
        views_[found->second] = ValueIndex(source);
      }
    }
    for (const Json& output : root_["outputs"].Items()) ReadAlias(output);
    for (const Json& output : root_["outputs"].Items()) ReadOutput(output);
    for (const Json& slot : target["workspace"].Items()) ReadSlot(slot);
    for (size_t slot = 0; slot < plan_.slots.size(); ++slot) {
      if (slot_values_[slot] >= 0)
        plan_.values[slot_values_[slot]].address = plan_.SlotAddress(static_cast<int>(slot));
    }
    for (size_t index = 0; index < plan_.values.size(); ++index) {
      plan_.values[index].root = Root(static_cast<int>(index));
      plan_.values[index].address = plan_.values[plan_.values[index].root].address;
    }
  }

  void ReadAlias(const Json& json) {
    if (json["alias"].IsNull()) return;
    const int input = InputPosition(ValueIndex(json["alias"]));
    if (input < 0 || plan_.Input(input).address < 0) json["alias"].Fail("expected a tensor input");
    const int value = ValueIndex(json["fid"]);
    if (!Equal(plan_.values[value].dtype, plan_.Input(input).dtype)) json["alias"].Fail("the dtypes differ");
    if (plan_.values[value].shape.size() != plan_.Input(input).shape.size())
      json["alias"].Fail("the ranks differ");
    const int root = Root(value);
    if (plan_.values[root].address >= 0 && plan_.values[root].address != input) {
      json["alias"].Fail("the output already lives in another input");
    }
    plan_.values[root].address = input;
    alias_of_[value] = plan_.inputs[input];
    if (root != value) return;
    // The kernel writes at the output's strides, so the caller's tensor must have them.
    Value& overwritten = plan_.values[plan_.inputs[input]];
    for (size_t dim = 0; dim < overwritten.strides.size(); ++dim) {
      if (!overwritten.strides[dim]) overwritten.strides[dim] = plan_.values[value].strides[dim];
    }
  }

  void ReadOutput(const Json& json) {
    const int value = ValueIndex(json["fid"]);
    if (!plan_.values[value].is_tensor || plan_.values[value].cpu)
      json["fid"].Fail("expected a tensor in device memory");
    const int position = static_cast<int>(plan_.outputs.size());
    if (!json["alias"].IsNull()) {
      plan_.outputs.push_back({value, OutputKind::kAlias, InputPosition(ValueIndex(json["alias"]))});
      return;
    }
    const int root = Root(value);
    const int address = plan_.values[root].address;
    const int num_inputs = static_cast<int>(plan_.inputs.size());
    if (address >= 0 && address < num_inputs) {
      plan_.outputs.push_back({value, OutputKind::kInputView, address});
    } else if (address >= 0) {
      plan_.outputs.push_back({value, OutputKind::kOwned, address - num_inputs});
      plan_.owned[address - num_inputs].given_by = -1;
    } else {
      const int owned = static_cast<int>(plan_.owned.size());
      plan_.values[root].address = plan_.OwnedAddress(owned);
      plan_.owned.push_back({root, position});
      plan_.outputs.push_back({value, OutputKind::kOwned, owned});
      if (HasFreeStride(plan_.values[root])) MakeContiguous(&plan_.values[root]);
    }
    const bool is_input = InputPosition(value) >= 0;
    if (HasFreeStride(plan_.values[value]) && !is_input) {
      json["fid"].Fail("a view that is an output needs strides");
    }
  }

  static bool HasFreeStride(const Value& value) {
    return std::find(value.strides.begin(), value.strides.end(), std::nullopt) != value.strides.end();
  }

  void ReadSlot(const Json& json) {
    Slot slot{json["id"].Int(), Compile(json["bytes"]), json["first"].Int(), json["last"].Int()};
    const int index = static_cast<int>(plan_.slots.size());
    if (!slot_of_.emplace(slot.id, index).second) json["id"].Fail("the slot is listed twice");
    int root = json["fid"].IsNull() ? -1 : Root(ValueIndex(json["fid"]));
    if (root >= 0 && plan_.values[root].address >= 0) {  // it is, or is viewed by, an output
      slot.bytes = Formula(0);
      root = -1;
    }
    if (root >= 0 && HasFreeStride(plan_.values[root])) MakeContiguous(&plan_.values[root]);
    slot.value = root;
    plan_.slots.push_back(std::move(slot));
    slot_values_.push_back(root);
  }

  // Segments.

  void ReadSegment(const Json& json) {
    Segment segment{json["id"].Int(), std::nullopt, {}, {}};
    if (json.Has("group")) segment.group = json["group"].Int();
    if (json.Has("call")) segment.call = ReadCall(json["call"]);
    for (const Json& variant_json : json["variants"].Items()) {
      Variant variant{variant_json["name"].String(), {}, {}};
      for (const Json& condition : variant_json["guard"].Items()) variant.guard.push_back(Compile(condition));
      for (const Json& launch : variant_json["launches"].Items())
        variant.launches.push_back(ReadLaunch(launch));
      segment.variants.push_back(std::move(variant));
    }
    plan_.segments.push_back(std::move(segment));
  }

  LibraryCall ReadCall(const Json& json) {
    const std::optional<DLDataType> dtype = FindDType(json["dtype"].String());
    if (!dtype || !IsFloating(*dtype)) json["dtype"].Fail("expected a floating dtype");
    const bool has_bias = !json["bias"].IsNull(), transpose_a = ReadFlag(json, "transpose_a");
    LibraryCall call{*dtype,
                     transpose_a,
                     json["transpose_b"].Bool(),
                     {has_bias, json.Has("residual") ? ReadBeta(json["beta"]) : 0},
                     OperandAddress(json["a"], *dtype),
                     OperandAddress(json["b"], *dtype),
                     has_bias ? OperandAddress(json["bias"], *dtype) : -1,
                     json.Has("residual") ? OperandAddress(json["residual"], *dtype) : -1,
                     OperandAddress(json["out"], *dtype),
                     Compile(json["m"]),
                     Compile(json["n"]),
                     Compile(json["k"]),
                     Formula(),
                     Formula(),
                     {}};
    call.lda = json.Has("lda") ? Compile(json["lda"]) : transpose_a ? call.m : call.k;
    call.ldb = json.Has("ldb") ? Compile(json["ldb"]) : call.transpose_b ? call.k : call.n;
    for (const Json& dim : json["batch"].Items()) {
      call.batch.push_back({Compile(dim["extent"]), Compile(dim["a_stride"]), Compile(dim["b_stride"])});
    }
    return call;
  }

  static bool ReadFlag(const Json& json, const char* name) { return json.Has(name) && json[name].Bool(); }

  static double ReadBeta(const Json& json) {
    const double beta = json.Double();
    if (beta == 0) json.Fail("a residual times 0 is none");
    return beta;
  }

  int OperandAddress(const Json& fid, DLDataType dtype) const {
    const Value& value = ValueOf(fid);
    if (value.address < 0) fid.Fail("value '" + value.name + "' has no memory");
    if (!Equal(value.dtype, dtype))
      fid.Fail("expected " + Describe(dtype) + ", got " + Describe(value.dtype));
    return value.address;
  }

  Launch ReadLaunch(const Json& json) {
    Launch launch;
    const std::vector<Json> grid = json["grid"].Items(), block = json["block"].Items();
    if (grid.size() != 3 || block.size() != 3) json.Fail("grid and block have three dims each");
    for (int dim = 0; dim < 3; ++dim) {
      launch.grid[dim] = Compile(grid[dim]);
      const int64_t size = block[dim].Int();
      if (size < 1 || size > 1024) block[dim].Fail("expected 1 to 1024 threads");
      launch.block[dim] = static_cast<int32_t>(size);
    }
    launch.shared_bytes = Compile(json["shared_bytes"]);
    const bool uses_shared = !launch.shared_bytes.IsConstant() || launch.shared_bytes.Evaluate({}) > 0;
    launch.kernel = KernelIndex(json["kernel"].String(), uses_shared);
    for (const Json& arg : json["args"].Items()) launch.args.push_back(ReadArg(arg));
    if (json.Has("members")) launch.members = ReadMembers(json, launch);
    CheckParameters(json["args"], launch);
    launch.overlaps = ReadFlag(json, "overlaps");
    launch.cluster = json.Has("cluster") ? Compile(json["cluster"]) : Formula(1);
    return launch;
  }

  // A table holds where the blocks of each launch begin, one row of them, and its arguments.
  static int64_t ReadMembers(const Json& json, const Launch& launch) {
    const int64_t members = json["members"].Int(), args = static_cast<int64_t>(launch.args.size());
    const int64_t most = kMostTableBytes / (8 * (args + 1));
    if (members < 1 || members > most)
      json["members"].Fail("expected 1 to " + std::to_string(most) + " launches of " + std::to_string(args) +
                           " arguments in a table");
    const bool is_row = IsOne(launch.grid[1]) && IsOne(launch.grid[2]) && !json.Has("cluster");
    if (!is_row || !launch.shared_bytes.IsConstant())
      json["members"].Fail("launches in a table are rows of blocks with as much shared memory");
    return members;
  }

  static bool IsOne(const Formula& size) { return size.IsConstant() && size.Evaluate({}) == 1; }

  // A kernel has one list of parameters, whatever launches it.
  void CheckParameters(const Json& json, const Launch& launch) {
    std::string types;
    for (const Arg& arg : launch.args) types += arg.type;
    if (types.empty()) json.Fail("a kernel without arguments can write nothing");
    if (launch.members > 0) {
      const std::string digits = std::to_string(launch.members);
      types += "*" + std::string(5 - digits.size(), '0') + digits;
    }
    std::string& known = plan_.kernel_parameters[launch.kernel];
    if (!known.empty() && known != types)
      json.Fail("the kernel is launched with " + known + " elsewhere, and here with " + types);
    known = types;
  }

  static std::string ScalarType(DLDataType dtype) {
    const bool is_integer = dtype.code == kDLInt || dtype.code == kDLUInt || dtype.code == kDLBool;
    return (is_integer ? "i" : "f") + std::to_string(Bytes(dtype));
  }

  int KernelIndex(const std::string& name, bool uses_shared) {
    auto& kernels = plan_.kernels;
    const size_t index = std::find(kernels.begin(), kernels.end(), name) - kernels.begin();
    if (index == kernels.size()) {
      kernels.push_back(name);
      plan_.kernel_uses_shared.push_back(false);
      plan_.kernel_parameters.emplace_back();
    }
    if (uses_shared) plan_.kernel_uses_shared[index] = true;
    return static_cast<int>(index);
  }

  Arg ReadArg(const Json& json) {
    const std::vector<Json> items = json.Items();
    const std::string kind = items.empty() ? "" : items[0].String();
    if (items.size() != (kind == "stride" ? 3 : 2)) json.Fail("malformed argument");
    const Json& operand = items[1];
    if (kind == "formula") return {Arg::Kind::kFormula, 0, Compile(operand), "i8"};
    if (kind == "tensor") {
      const Value& value = ValueOf(operand);
      if (value.address < 0) operand.Fail("value '" + value.name + "' has no memory");
      return {Arg::Kind::kAddress, value.address, Formula(), "p8"};
    }
    if (kind == "scalar") {
      const int input = InputPosition(ValueIndex(operand));
      if (input < 0 || plan_.Input(input).address >= 0) operand.Fail("expected a scalar input");
      return {Arg::Kind::kScalar, input, Formula(), ScalarType(plan_.Input(input).dtype)};
    }
    if (kind == "extent") {
      auto found = extents_.find(operand.Int());
      if (found == extents_.end()) operand.Fail("no extent has fid " + std::to_string(operand.Int()));
      return {Arg::Kind::kFormula, 0, found->second, "i8"};
    }
    if (kind == "workspace") {
      auto found = slot_of_.find(operand.Int());
      if (found == slot_of_.end()) operand.Fail("no slot has id " + std::to_string(operand.Int()));
      return {Arg::Kind::kAddress, plan_.SlotAddress(found->second), Formula(), "p8"};
    }
    if (kind == "stride") return ReadStride(operand, items[2]);
    items[0].Fail("unknown kind of argument '" + kind + "'");
  }

  Arg ReadStride(const Json& fid, const Json& dim_json) const {
    const auto alias = alias_of_.find(ValueIndex(fid));
    const int index = alias == alias_of_.end() ? ValueIndex(fid) : alias->second;
    const Value& value = plan_.values[index];
    const int64_t dim = dim_json.Int();
    if (dim < 0 || dim >= static_cast<int64_t>(value.strides.size())) dim_json.Fail("no such dim");
    if (value.strides[dim]) return {Arg::Kind::kFormula, 0, *value.strides[dim], "i8"};
    for (size_t i = 0; i < plan_.free_strides.size(); ++i) {
      const FreeStride& free = plan_.free_strides[i];
      if (plan_.inputs[free.input] == index && free.dim == dim) {
        return {Arg::Kind::kFreeStride, static_cast<int>(i), Formula(), "i8"};
      }
    }
    fid.Fail("the strides of '" + value.name + "' are not known");
  }

  // Each symbol has its size from an input or, that one alone, from the device.
  void CheckSymbols() {
    const std::vector<std::string>& symbols = plan_.names.symbols;
    plan_.bindings.resize(symbols.size());
    for (size_t symbol = 0; symbol < symbols.size(); ++symbol) {
      const bool of_device = symbols[symbol] == kMultiprocessors;
      if (of_device) plan_.multiprocessors = static_cast<int>(symbol);
      if ((plan_.bindings[symbol].input < 0) == of_device) continue;
      root_.Fail(of_device
                     ? "a dim of an input is called '" + symbols[symbol] + "', which is the device's"
                     : "no input has a dim of size '" + symbols[symbol] + "', so its size is not known");
    }
  }

  void AnswerAlignments() {
    for (const AlignmentQuestion& question : plan_.names.alignments) {
      auto found = index_of_.find(question.fid);
      if (found == index_of_.end() || plan_.values[found->second].address < 0) {
        root_.Fail("a guard asks for the alignment of fid " + std::to_string(question.fid) +
                   ", which has no memory");
      }
      const int address = plan_.values[found->second].address;
      plan_.alignment_addresses.push_back(address);
      std::vector<FreeStride>& strides = plan_.alignment_strides.emplace_back();
      for (const FreeStride& free : plan_.free_strides) {
        if (free.input == address) strides.push_back(free);
      }
    }
  }

  Json root_;
  Plan plan_;
  std::map<int64_t, int> index_of_;     // fid -> index into values
  std::map<int64_t, Formula> extents_;  // negative fid -> size
  std::map<int, int> views_;            // value -> the value whose memory it shares
  std::map<int, int> alias_of_;         // output -> the input it overwrites
  std::map<int64_t, int> slot_of_;      // slot id -> index into slots
  std::vector<int> slot_values_;        // slot -> the root that lives in it, or -1
};

}  // namespace

Plan ReadPlan(const std::string& json, const std::string& target) {
  return Reader(Json::Parse(json), target).Read();
}

}  // namespace fusebuild
