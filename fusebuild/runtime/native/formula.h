// Formulas over extents, compiled from the plan's prefix lists (see fusebuild/ir/formula.py). Guards, grids
// and arguments of a plan's variants are made of the same parts again and again: equal parts are one node,
// which is evaluated once for all of them.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "json.h"

namespace fusebuild {

/// ("aligned", fid, bytes): does tensor `fid` start at a multiple of `bytes`, and each step along a dim whose
/// stride the caller chooses keep it there?
struct AlignmentQuestion {
  int64_t fid;
  int64_t bytes;
};

/// The symbol that is no dim of any input: the multiprocessors of the device (MULTIPROCESSORS in formula.py).
constexpr char kMultiprocessors[] = "gpu.multiprocessors";

class Names;

/// The values of nodes that are known already, at one set of sizes.
class Known {
 public:
  explicit Known(const Names& names);

 private:
  friend class Formula;
  std::vector<int64_t> values_;
  std::vector<uint8_t> is_known_;
};

/// What a formula reads during a call: the size of each symbol, one bit per alignment question, and what is
/// known already, null where a single formula is asked for.
struct Environment {
  const int64_t* symbols;
  const uint64_t* aligned;
  Known* known = nullptr;
};

/// A number, a symbol, or a node: an operator and its operands, which the plan's Names hold.
class Formula {
 public:
  explicit Formula(int64_t constant = 0) : kind_(Kind::kConstant), operand_(constant) {}
  static Formula Symbol(int index) { return Formula(Kind::kSymbol, index); }
  static Formula Compile(const Json& json, Names* names);
  /// The product of `factors[first:]`; 1 for none.
  static Formula Product(const std::vector<Formula>& factors, size_t first, Names* names);

  /// The value in 64-bit signed arithmetic; throws ValueError on overflow and on division by zero.
  int64_t Evaluate(const Environment& environment) const {
    if (kind_ == Kind::kConstant) return operand_;
    return kind_ == Kind::kSymbol ? environment.symbols[operand_] : EvaluateNode(environment);
  }

  bool IsConstant() const { return kind_ == Kind::kConstant; }
  /// The index of the symbol that is the whole formula, or -1.
  int AsSymbol() const { return kind_ == Kind::kSymbol ? static_cast<int>(operand_) : -1; }
  /// The indices of all symbols in it.
  std::vector<int> Symbols() const;
  /// As a person writes it, "2*I", as show() in formula.py does.
  std::string Show(const Names& names) const;

  bool operator<(const Formula& other) const {
    return std::tie(kind_, operand_, node_) < std::tie(other.kind_, other.operand_, other.node_);
  }

 private:
  friend class Names;
  enum class Kind : uint8_t { kConstant, kSymbol, kAligned, kNode };
  enum class Op : uint8_t {
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
  struct Node {
    Op op;
    size_t index;                   // among all nodes
    std::vector<Formula> operands;  // two or more, folded from the left
  };

  static constexpr int kMaxDepth = 80;  // plan_check.py allows 64

  Formula(Kind kind, int64_t operand, const Node* node = nullptr)
      : kind_(kind), operand_(operand), node_(node) {}

  int64_t EvaluateNode(const Environment& environment) const;
  static int64_t Apply(Op op, int64_t a, int64_t b);
  static Op Operator(const Json& json);
  static const char* Name(Op op);
  static Formula Compile(const Json& json, Names* names, int depth);
  void AddSymbols(std::vector<int>* symbols) const;
  std::string ShowSum(const Names& names) const;
  std::string ShowOperand(const Names& names, bool divides) const;
  std::string ShowNegated(const Names& names) const;
  bool IsNegative() const;

  Kind kind_;
  int64_t operand_;             // the number, or the index of the symbol or of the alignment question
  const Node* node_ = nullptr;  // where it is one
};

/// The names that formulas of one plan use, and the nodes that these consist of. They have to outlive the
/// formulas, which point to nodes, and refer to names by index.
class Names {
 public:
  Names() = default;
  Names(Names&&) = default;  // the nodes stay where they are
  Names& operator=(Names&&) = default;

  std::vector<std::string> symbols;
  std::vector<AlignmentQuestion> alignments;

  int Symbol(const std::string& name);
  int Alignment(int64_t fid, int64_t bytes);
  size_t NumNodes() const { return nodes_.size(); }

 private:
  friend class Formula;
  /// The one node that applies `op` to `operands`.
  Formula Node(Formula::Op op, std::vector<Formula> operands);

  std::deque<Formula::Node> nodes_;
  std::map<std::pair<Formula::Op, std::vector<Formula>>, const Formula::Node*> known_;
};

}  // namespace fusebuild
