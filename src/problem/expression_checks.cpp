#include "problem/expression_checks.hpp"

#include <algorithm>
#include <limits>
#include <string_view>
#include <vector>

#include "expr/declare.hpp"
#include "expr/parse.hpp"
#include "expr/placed.hpp"
#include "expr/simplify.hpp"
#include "problem/checks.hpp"

namespace attnjit::problem {
namespace {

using namespace checks;
using expr::OperandDeclaration;

// An axis of size 1 serves every index. Operands without elements are those of problems without a
// pair of a row and a key.
ExpressionOperand canonical(const attnjit::Operand& operand, std::size_t place, bool has_pairs) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  ExpressionOperand o{.argument = static_cast<std::int32_t>(place),
                      .dtype = operand.tensor.dtype,
                      .rank = operand.rank};
  Tensor used = operand.tensor;
  for (std::size_t axis = 0; axis < used.shape.size(); ++axis) {
    std::int64_t& size = used.shape[axis];
    if (axis >= static_cast<std::size_t>(operand.rank)) {
      size = 1;
      continue;
    }
    if (size < (has_pairs ? 1 : 0) || size > kMost) {
      reject("operand {}: axis {} is {}; expected {} to {}", operand.name, axis, size,
             has_pairs ? 1 : 0, kMost);
    }
    o.sizes[axis] = size;
    o.strides[axis] = size == 1 ? 0 : used.strides[axis];
  }
  check_memory(operand.name, used);
  return o;
}

// The expression of one text, and its operands out of `all`, each marked in `read`.
expr::Ref resolve(expr::Kind kind, const Expression& text, const ForwardArgs& args,
                  const std::vector<OperandDeclaration>& declarations,
                  const std::vector<ExpressionOperand>& all, std::vector<bool>& read,
                  ExpressionOperands& operands) {
  if (!text) return {};
  const expr::Expr parsed = expr::parse(kind, text.text(), declarations);
  const auto place_of = [&](const OperandDeclaration& operand) {
    const auto found = std::ranges::find(declarations, operand.name, &OperandDeclaration::name);
    return static_cast<std::size_t>(found - declarations.begin());
  };
  for (const OperandDeclaration& operand : parsed.operands()) read[place_of(operand)] = true;
  const bool is_part = args.row_offset != 0 || args.key_offset != 0;
  const expr::Expr whole = expr::simplify(parsed);
  const expr::Expr e = is_part ? expr::placed(whole) : whole;
  std::vector<DType> dtypes;
  for (const OperandDeclaration& operand : e.operands()) {
    const ExpressionOperand& o = all[place_of(operand)];
    operands[dtypes.size()] = o;
    dtypes.push_back(o.dtype);
  }
  return expr::Ref::of(kind, e, std::move(dtypes));
}

bool uses_offsets(const expr::Ref& e) { return e && (e->uses & expr::kUsesOffsets) != 0; }

void check_offset(const char* what, std::int64_t offset) {
  if (-kMaxSeqlen <= offset && offset <= kMaxSeqlen) return;
  reject("{}: {}; expected {} to {}", what, offset, -kMaxSeqlen, kMaxSeqlen);
}

}  // namespace

void check_expressions(const ForwardArgs& args, Problem& p) {
  check_offset("row_offset", args.row_offset);
  check_offset("key_offset", args.key_offset);
  if (!args.score && !args.keep) {
    if (!args.operands.empty()) {
      reject("operands: {} without score and keep; expected none", args.operands.size());
    }
    return;
  }
  if (args.operands.size() > expr::kMaxOperands) {
    reject("operands: {}; expected at most {}", args.operands.size(), expr::kMaxOperands);
  }
  const std::vector<OperandDeclaration> declarations = expr::declarations(args.operands);
  std::vector<ExpressionOperand> operands;
  const bool has_pairs = p.has_rows() && p.seqlen_kv > 0;
  for (const attnjit::Operand& operand : args.operands) {
    operands.push_back(canonical(operand, operands.size(), has_pairs));
  }
  std::vector<bool> read(operands.size());
  p.score =
      resolve(expr::Kind::kScore, args.score, args, declarations, operands, read, p.score_operands);
  p.keep =
      resolve(expr::Kind::kKeep, args.keep, args, declarations, operands, read, p.keep_operands);
  if (uses_offsets(p.score) || uses_offsets(p.keep)) {
    p.row_offset = static_cast<std::int32_t>(args.row_offset);
    p.key_offset = static_cast<std::int32_t>(args.key_offset);
  }
  for (std::size_t n = 0; n < read.size(); ++n) {
    if (!read[n]) {
      reject("operand {}: no expression reads it; leave it out", declarations[n].name);
    }
  }
}

}  // namespace attnjit::problem
