#include "formula.h"

#include <algorithm>
#include <iterator>

#include "error.h"

namespace fusebuild {

int Names::Symbol(const std::string& name) {
  auto found = std::find(symbols.begin(), symbols.end(), name);
  if (found == symbols.end()) found = symbols.insert(found, name);
  return static_cast<int>(found - symbols.begin());
}

int Names::Alignment(int64_t fid, int64_t bytes) {
  auto same = [&](const AlignmentQuestion& q) { return q.fid == fid && q.bytes == bytes; };
  auto found = std::find_if(alignments.begin(), alignments.end(), same);
  if (found == alignments.end()) found = alignments.insert(found, {fid, bytes});
  return static_cast<int>(found - alignments.begin());
}

Formula Names::Node(Formula::Op op, std::vector<Formula> operands) {
  const auto [found, is_new] = known_.try_emplace({op, std::move(operands)}, nullptr);
  if (is_new) {
    nodes_.push_back({op, nodes_.size(), found->first.second});
    found->second = &nodes_.back();
  }
  return Formula(Formula::Kind::kNode, 0, found->second);
}

Known::Known(const Names& names) : values_(names.NumNodes()), is_known_(names.NumNodes()) {}

Formula Formula::Compile(const Json& json, Names* names) { return Compile(json, names, 0); }

// Factors of 1 are left out, so that equal products are one node more often.
Formula Formula::Product(const std::vector<Formula>& factors, size_t first, Names* names) {
  std::vector<Formula> operands;
  for (size_t i = first; i < factors.size(); ++i) {
    if (!factors[i].IsConstant() || factors[i].operand_ != 1) operands.push_back(factors[i]);
  }
  if (operands.empty()) return Formula(1);
  return operands.size() == 1 ? operands[0] : names->Node(Op::kMul, std::move(operands));
}

// In the order of Op.
static const char* const kOperators[] = {"add", "sub", "mul", "floor_div", "ceil_div", "mod", "min",
                                         "max", "eq",  "ne",  "lt",        "le",       "gt",  "ge"};

const char* Formula::Name(Op op) { return kOperators[static_cast<size_t>(op)]; }

Formula::Op Formula::Operator(const Json& json) {
  const std::string name = json.String();
  const auto found = std::find(std::begin(kOperators), std::end(kOperators), name);
  if (found == std::end(kOperators)) json.Fail("unknown operator '" + name + "'");
  return static_cast<Op>(found - std::begin(kOperators));
}

Formula Formula::Compile(const Json& json, Names* names, int depth) {
  if (depth >= kMaxDepth) json.Fail("the formula is nested too deeply");
  if (json.IsInt()) return Formula(json.Int());
  if (json.IsString()) return Symbol(names->Symbol(json.String()));
  const std::vector<Json> items = json.Items();
  if (items.size() < 3) json.Fail("an operator takes two operands or more");
  if (items[0].String() == "aligned") {
    if (items[2].Int() < 1) json.Fail("an alignment is at least 1");
    return Formula(Kind::kAligned, names->Alignment(items[1].Int(), items[2].Int()));
  }
  const Op op = Operator(items[0]);
  const bool variadic = op == Op::kAdd || op == Op::kMul || op == Op::kMin || op == Op::kMax;
  if (items.size() > 3 && !variadic) json.Fail("this operator takes two operands");
  std::vector<Formula> operands;
  for (size_t i = 1; i < items.size(); ++i) operands.push_back(Compile(items[i], names, depth + 1));
  return op == Op::kMul ? Product(operands, 0, names) : names->Node(op, std::move(operands));
}

int64_t Formula::Apply(Op op, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (op) {
    case Op::kAdd:
      if (__builtin_add_overflow(a, b, &result)) ThrowValueError("a size exceeds 64 bits");
      return result;
    case Op::kSub:
      if (__builtin_sub_overflow(a, b, &result)) ThrowValueError("a size exceeds 64 bits");
      return result;
    case Op::kMul:
      if (__builtin_mul_overflow(a, b, &result)) ThrowValueError("a size exceeds 64 bits");
      return result;
    case Op::kFloorDiv:
    case Op::kCeilDiv:
    case Op::kMod:
      if (a < 0 || b <= 0) ThrowValueError("a formula divides by zero, or a negative number");
      if (op == Op::kMod) return a % b;
      return a / b + (op == Op::kCeilDiv && a % b != 0);
    case Op::kMin:
      return std::min(a, b);
    case Op::kMax:
      return std::max(a, b);
    case Op::kEq:
      return a == b;
    case Op::kNe:
      return a != b;
    case Op::kLt:
      return a < b;
    case Op::kLe:
      return a <= b;
    case Op::kGt:
      return a > b;
    case Op::kGe:
      return a >= b;
  }
  ThrowRuntimeError("a formula has an operator that there is not");
}

int64_t Formula::EvaluateNode(const Environment& environment) const {
  if (kind_ == Kind::kAligned) return environment.aligned[operand_ / 64] >> (operand_ % 64) & 1;
  Known* known = environment.known;
  if (known != nullptr && known->is_known_[node_->index]) return known->values_[node_->index];
  int64_t value = node_->operands[0].Evaluate(environment);
  for (size_t i = 1; i < node_->operands.size(); ++i)
    value = Apply(node_->op, value, node_->operands[i].Evaluate(environment));
  if (known != nullptr) {
    known->values_[node_->index] = value;
    known->is_known_[node_->index] = 1;
  }
  return value;
}

// What stands between two operands; null where operands are listed behind the operator's name.
static const char* Infix(const std::string& name) {
  static const std::pair<const char*, const char*> kInfix[] = {
      {"add", " + "}, {"sub", " - "}, {"mul", "*"},   {"floor_div", " // "}, {"mod", " % "}, {"eq", " == "},
      {"ne", " != "}, {"lt", " < "},  {"le", " <= "}, {"gt", " > "},         {"ge", " >= "}};
  for (const auto& [known, text] : kInfix) {
    if (name == known) return text;
  }
  return nullptr;
}

std::string Formula::Show(const Names& names) const {
  if (kind_ == Kind::kConstant) return std::to_string(operand_);
  if (kind_ == Kind::kSymbol) return names.symbols[operand_];
  if (kind_ == Kind::kAligned) {
    const AlignmentQuestion& question = names.alignments[operand_];
    return "aligned(" + std::to_string(question.fid) + ", " + std::to_string(question.bytes) + ")";
  }
  if (node_->op == Op::kAdd) return ShowSum(names);
  const char* infix = Infix(Name(node_->op));
  const bool divides = node_->op == Op::kFloorDiv || node_->op == Op::kMod;
  std::string text;
  for (const Formula& operand : node_->operands) {
    if (!text.empty()) text += infix ? infix : ", ";
    text += infix ? operand.ShowOperand(names, divides) : operand.Show(names);
  }
  return infix ? text : std::string(Name(node_->op)) + "(" + text + ")";
}

// The terms, joined by their signs.
std::string Formula::ShowSum(const Names& names) const {
  std::string text;
  for (const Formula& term : node_->operands) {
    const bool negative = term.IsNegative();
    if (text.empty()) {
      text = negative ? "-" : "";
    } else {
      text += negative ? " - " : " + ";
    }
    if (!negative) {
      text += term.ShowOperand(names, false);
    } else if (term.kind_ == Kind::kConstant) {
      text += std::to_string(term.operand_).substr(1);
    } else {
      text += term.ShowNegated(names);
    }
  }
  return text;
}

// A product whose first factor is negative, without its sign.
std::string Formula::ShowNegated(const Names& names) const {
  std::string text;
  for (size_t i = 0; i < node_->operands.size(); ++i) {
    const Formula& factor = node_->operands[i];
    if (i == 0 && factor.operand_ == -1) continue;
    text += text.empty() ? "" : "*";
    text += i == 0 ? std::to_string(factor.operand_).substr(1) : factor.ShowOperand(names, false);
  }
  return text;
}

// Whether it is a negative number, or a product of one and something else.
bool Formula::IsNegative() const {
  if (kind_ == Kind::kConstant) return operand_ < 0;
  return kind_ == Kind::kNode && node_->op == Op::kMul && node_->operands[0].kind_ == Kind::kConstant &&
         node_->operands[0].operand_ < 0;
}

// In parentheses where it needs them: products bind as tightly as divisions do, and tighter than all else.
std::string Formula::ShowOperand(const Names& names, bool divides) const {
  const std::string text = Show(names);
  const bool is_infix = kind_ == Kind::kNode && Infix(Name(node_->op)) != nullptr;
  return is_infix && (divides || node_->op != Op::kMul) ? "(" + text + ")" : text;
}

std::vector<int> Formula::Symbols() const {
  std::vector<int> symbols;
  AddSymbols(&symbols);
  return symbols;
}

void Formula::AddSymbols(std::vector<int>* symbols) const {
  if (kind_ == Kind::kSymbol) symbols->push_back(static_cast<int>(operand_));
  if (kind_ != Kind::kNode) return;
  for (const Formula& operand : node_->operands) operand.AddSymbols(symbols);
}

}  // namespace fusebuild
