#include "formula.h"

#include <algorithm>

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

Formula Formula::Symbol(int index) {
  Formula formula;
  formula.Emit(Op::kSymbol, index);
  formula.Simplify();
  return formula;
}

Formula Formula::Compile(const Json& json, Names* names) {
  if (json.IsInt()) return Formula(json.Int());
  Formula formula;
  formula.Append(json, names, 0);
  formula.Simplify();
  return formula;
}

Formula Formula::Product(const std::vector<Formula>& factors, size_t first) {
  Formula product;
  for (size_t i = first; i < factors.size(); ++i) {
    const Formula& factor = factors[i];
    if (factor.IsConstant() && factor.constant_ == 1) continue;
    const bool is_first = product.code_.empty();
    if (factor.IsConstant()) product.Emit(Op::kConstant, factor.constant_);
    product.code_.insert(product.code_.end(), factor.code_.begin(), factor.code_.end());
    if (!is_first) product.Emit(Op::kMul);
  }
  if (product.code_.empty()) return Formula(1);
  product.Simplify();
  return product;
}

Formula::Op Formula::Operator(const Json& json) {
  static const std::pair<const char*, Op> kOperators[] = {
      {"add", Op::kAdd},
      {"sub", Op::kSub},
      {"mul", Op::kMul},
      {"floor_div", Op::kFloorDiv},
      {"ceil_div", Op::kCeilDiv},
      {"mod", Op::kMod},
      {"min", Op::kMin},
      {"max", Op::kMax},
      {"eq", Op::kEq},
      {"ne", Op::kNe},
      {"lt", Op::kLt},
      {"le", Op::kLe},
      {"gt", Op::kGt},
      {"ge", Op::kGe},
  };
  const std::string name = json.String();
  for (const auto& [known, op] : kOperators) {
    if (name == known) return op;
  }
  json.Fail("unknown operator '" + name + "'");
}

// Appends code that leaves the value of `json` on the stack, which holds `depth` values before.
void Formula::Append(const Json& json, Names* names, int depth) {
  if (depth >= kMaxDepth) json.Fail("the formula is nested too deeply");
  if (json.IsInt()) return Emit(Op::kConstant, json.Int());
  if (json.IsString()) return Emit(Op::kSymbol, names->Symbol(json.String()));
  const std::vector<Json> items = json.Items();
  if (items.size() < 3) json.Fail("an operator takes two operands or more");
  if (items[0].String() == "aligned") {
    if (items[2].Int() < 1) json.Fail("an alignment is at least 1");
    return Emit(Op::kAligned, names->Alignment(items[1].Int(), items[2].Int()));
  }
  const Op op = Operator(items[0]);
  const bool variadic = op == Op::kAdd || op == Op::kMul || op == Op::kMin || op == Op::kMax;
  if (items.size() > 3 && !variadic) json.Fail("this operator takes two operands");
  bool is_first = true;
  for (size_t i = 1; i < items.size(); ++i) {
    if (op == Op::kMul && items[i].IsInt() && items[i].Int() == 1) continue;
    Append(items[i], names, depth + !is_first);
    if (!is_first) Emit(op);
    is_first = false;
  }
  if (is_first) Emit(Op::kConstant, 1);
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
    default:
      ThrowRuntimeError("a formula holds an operand where an operator belongs");
  }
}

int64_t Formula::EvaluateCode(const Environment& environment) const {
  int64_t stack[kMaxDepth + 1];
  int top = 0;
  for (const Instruction& instruction : code_) {
    const int64_t operand = instruction.operand;
    switch (instruction.op) {
      case Op::kConstant:
        stack[top++] = operand;
        break;
      case Op::kSymbol:
        stack[top++] = environment.symbols[operand];
        break;
      case Op::kAligned:
        stack[top++] = environment.aligned[operand / 64] >> (operand % 64) & 1;
        break;
      default:
        --top;
        stack[top - 1] = Apply(instruction.op, stack[top - 1], stack[top]);
    }
  }
  return stack[0];
}

void Formula::Simplify() {
  if (code_.size() != 1) return;
  const Instruction only = code_[0];
  if (only.op == Op::kSymbol) symbol_ = static_cast<int>(only.operand);
  if (only.op != Op::kConstant) return;
  constant_ = only.operand;
  code_.clear();
}

std::vector<int> Formula::Symbols() const {
  std::vector<int> symbols;
  for (const Instruction& instruction : code_) {
    if (instruction.op == Op::kSymbol) symbols.push_back(static_cast<int>(instruction.operand));
  }
  return symbols;
}

}  // namespace fusebuild
