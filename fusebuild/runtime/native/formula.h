// Formulas over extents, compiled from the plan's prefix lists to postfix code (see fusebuild/ir/formula.py).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "json.h"

namespace fusebuild {

/// ("aligned", fid, bytes): does tensor `fid` start at a multiple of `bytes`?
struct AlignmentQuestion {
  int64_t fid;
  int64_t bytes;
};

/// The names that formulas of one plan use. Formulas refer to them by index.
struct Names {
  std::vector<std::string> symbols;
  std::vector<AlignmentQuestion> alignments;

  int Symbol(const std::string& name);
  int Alignment(int64_t fid, int64_t bytes);
};

/// The symbol that is no dim of any input: the multiprocessors of the device (MULTIPROCESSORS in formula.py).
constexpr char kMultiprocessors[] = "gpu.multiprocessors";

/// What a formula reads during a call: the size of each symbol, and one bit per alignment question.
struct Environment {
  const int64_t* symbols;
  const uint64_t* aligned;
};

class Formula {
 public:
  explicit Formula(int64_t constant = 0) : constant_(constant) {}
  static Formula Symbol(int index);
  static Formula Compile(const Json& json, Names* names);
  /// The product of `factors[first:]`; 1 for none.
  static Formula Product(const std::vector<Formula>& factors, size_t first);

  /// The value in 64-bit signed arithmetic; throws ValueError on overflow and on division by zero.
  int64_t Evaluate(const Environment& environment) const {
    if (code_.empty()) return constant_;
    return symbol_ >= 0 ? environment.symbols[symbol_] : EvaluateCode(environment);
  }

  bool IsConstant() const { return code_.empty(); }
  /// The index of the symbol that is the whole formula, or -1.
  int AsSymbol() const { return symbol_; }
  /// The indices of all symbols in it.
  std::vector<int> Symbols() const;

 private:
  enum class Op : uint8_t {
    kConstant,
    kSymbol,
    kAligned,
    kAdd,
    kSub,
    kMul,
    kFloorDiv,
    kCeilDiv,
    kMod,
    kMin,
    kMax,
    kEq,
    kNe,
    kLt,
    kLe,
    kGt,
    kGe,
  };
  struct Instruction {
    Op op;
    int64_t operand;
  };

  static constexpr int kMaxDepth = 80;  // plan_check.py allows 64

  int64_t EvaluateCode(const Environment& environment) const;
  static int64_t Apply(Op op, int64_t a, int64_t b);
  static Op Operator(const Json& json);
  void Append(const Json& json, Names* names, int depth);
  void Emit(Op op, int64_t operand = 0) { code_.push_back({op, operand}); }
  /// Notes what the code comes to without being run, once it is complete.
  void Simplify();

  std::vector<Instruction> code_;  // empty for a constant
  int64_t constant_ = 0;
  int symbol_ = -1;  // of code that is nothing but a symbol
};

}  // namespace fusebuild
