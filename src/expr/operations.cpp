#include "expr/operations.hpp"

#include <algorithm>
#include <array>

namespace attnjit::expr {
namespace {

using N = Notation;
using S = Signature;
namespace at = precedence;

constexpr Operation prefix(const char* text, S signature) {
  return {text, N::kPrefix, signature, 1, at::kPrefix};
}
constexpr Operation infix(const char* text, S signature, int level) {
  return {text, N::kInfix, signature, 2, level};
}
constexpr Operation function(const char* text, S signature, int num_args) {
  return {text, N::kFunction, signature, num_args, at::kPrimary};
}

// In the order of Op.
constexpr std::array<Operation, kNumOps> kOperations = {
    Operation{},
    Operation{},
    Operation{},
    Operation{},
    prefix("-", S::kArithmetic),
    prefix("!", S::kLogic),
    function("abs", S::kArithmetic, 1),
    function("exp", S::kReal, 1),
    function("log", S::kReal, 1),
    function("tanh", S::kReal, 1),
    function("sigmoid", S::kReal, 1),
    function("sqrt", S::kReal, 1),
    function("floor", S::kReal, 1),
    function("float", S::kToFloat, 1),
    function("int", S::kToInt, 1),
    infix("+", S::kArithmetic, at::kSum),
    infix("-", S::kArithmetic, at::kSum),
    infix("*", S::kArithmetic, at::kProduct),
    infix("/", S::kReal, at::kProduct),
    infix("//", S::kInteger, at::kProduct),
    infix("%", S::kInteger, at::kProduct),
    infix("&", S::kInteger, at::kBitAnd),
    infix("|", S::kInteger, at::kBitOr),
    infix("^", S::kInteger, at::kBitXor),
    infix("<<", S::kInteger, at::kShift),
    infix(">>", S::kInteger, at::kShift),
    infix("==", S::kEquality, at::kEquality),
    infix("!=", S::kEquality, at::kEquality),
    infix("<", S::kOrder, at::kOrder),
    infix("<=", S::kOrder, at::kOrder),
    infix(">", S::kOrder, at::kOrder),
    infix(">=", S::kOrder, at::kOrder),
    infix("&&", S::kLogic, at::kAnd),
    infix("||", S::kLogic, at::kOr),
    function("min", S::kArithmetic, 2),
    function("max", S::kArithmetic, 2),
    function("clamp", S::kArithmetic, 3),
    Operation{"?", N::kTernary, S::kSelect, 3, at::kTernary},
};

constexpr std::array<const char*, kNumIndices> kIndices = {
    "b", "h", "g", "i", "j", "off", "Lq", "Lk", "row_offset", "key_offset"};
constexpr std::array<std::string_view, 4> kWords = {"s", "true", "false", "inf"};

}  // namespace

const Operation& operation(Op op) { return kOperations[static_cast<std::size_t>(op)]; }

Op find_operation(std::string_view text, Notation notation) {
  for (int n = 0; n < kNumOps; ++n) {
    const Operation& o = kOperations[static_cast<std::size_t>(n)];
    if (o.notation == notation && o.text == text) return static_cast<Op>(n);
  }
  return Op::kLiteral;
}

int find_index(std::string_view name) {
  return static_cast<int>(std::ranges::find(kIndices, name) - kIndices.begin());
}

const char* name(Index which) { return kIndices[static_cast<std::size_t>(which)]; }

bool is_reserved(std::string_view word) {
  return find_index(word) < kNumIndices || std::ranges::find(kWords, word) != kWords.end() ||
         find_operation(word, Notation::kFunction) != Op::kLiteral;
}

}  // namespace attnjit::expr
