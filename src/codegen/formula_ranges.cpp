#include "codegen/formula_ranges.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "expr/operations.hpp"

namespace attnjit::codegen {

using expr::Index;
using expr::Node;
using expr::Op;
using expr::Type;
using namespace expr::precedence;

namespace {

// k if `node` is the literal 2^k - 1.
std::optional<int> low_bits(const Node& node) {
  if (!node.is(Op::kLiteral) || node.payload == std::numeric_limits<std::int64_t>::max()) {
    return std::nullopt;
  }
  return power_of_two(expr::literal(node.payload + 1));
}

}  // namespace

std::vector<RangedAxis> ranged_axes(const expr::Interned& keep, bool packs_heads) {
  const Formula f = make_formula(keep.expression, keep, packs_heads);
  std::vector<RangedAxis> found;
  for (const Node& node : f.e.nodes()) {
    if (!node.is(Op::kRead) || node.type == Type::kFloat) continue;
    const std::size_t operand = f.operands[static_cast<std::size_t>(node.operand)];
    const std::optional<std::size_t> axis = f.varying_axis(node);
    if (axis && std::ranges::find(found, operand, &RangedAxis::operand) == found.end()) {
      found.push_back({operand, *axis});
    }
  }
  return found;
}

FormulaRanges::FormulaRanges(const Formula& formula, Names names)
    : FormulaText(formula, std::move(names)), unknown_(formula.e.nodes().size()) {
  for (std::size_t n = 0; n < unknown_.size(); ++n) {
    unknown_[n] = f_.varies(static_cast<int>(n)) && find_unknown(static_cast<int>(n));
  }
}

bool FormulaRanges::has_range(const Node& read) const {
  return f_.has_range(read) && !is_unknown(read.args[*f_.varying_axis(read)]);
}

// Whether the rows and keys of a tile read few elements: what differs is a quotient of known ints,
// or with pack_gqa a head, of which such operands often have one.
bool FormulaRanges::is_by_blocks(const Node& read) const {
  if (read.type == Type::kFloat || f_.has_range(read)) return false;
  return std::ranges::all_of(read.arguments(), [&](int index) {
    const Node& node = f_.node(index);
    const bool is_few =
        node.is(Op::kFloorDivide) || node.is(Op::kShiftRight) || node == expr::index(Index::kHeadQ);
    return !f_.varies(index) || (is_few && !is_unknown(index));
  });
}

// Of what varies.
bool FormulaRanges::find_unknown(int place) const {
  const Node& node = f_.node(place);
  const auto arg_varies = [&](std::size_t n) { return f_.varies(node.args[n]); };
  const auto arg_unknown = [&](std::size_t n) { return is_unknown(node.args[n]); };
  if (node.is(Op::kRead)) return !has_range(node) && !is_by_blocks(node);
  if (node.type == Type::kFloat) return true;
  if (node.type == Type::kInt && f_.may_wrap(place)) return true;
  for (std::size_t n = 0; n < node.num_args; ++n) {
    if (f_.node(node.args[n]).type == Type::kFloat && arg_varies(n)) return true;
  }
  switch (node.op) {
    case Op::kFloorDivide:
    case Op::kModulo:
      return arg_varies(1) || arg_unknown(0);
    case Op::kBitAnd:
      return !low_bits(f_.node(node.args[1])) || arg_unknown(0);
    case Op::kBitOr:
    case Op::kBitXor:
      return true;
    case Op::kAnd:
    case Op::kOr:
      return arg_unknown(0) && arg_unknown(1);
    case Op::kSelect:
      return arg_unknown(1) && arg_unknown(2);
    case Op::kIndex:
      return false;
    default:
      break;
  }
  // Comparisons with what is unknown, and functions of it, say little.
  return std::ranges::any_of(node.arguments(), [&](int arg) { return is_unknown(arg); });
}

std::string FormulaRanges::name_of(int place) const {
  if (!is_unknown(place)) return FormulaText::name_of(place);
  if (f_.node(place).type == Type::kBool) return "Truth::unknown()";
  const expr::IntRange& ints = f_.range(place).ints;
  return fmt::format("Span({}, {})", int_text(ints.first), int_text(ints.last));
}

FormulaText::Part FormulaRanges::range_of(const Node& read) const {
  std::string args =
      fmt::format("params.operands[{}]", f_.operands[static_cast<std::size_t>(read.operand)]);
  for (const int index : read.arguments()) {
    args += ", " + (f_.varies(index) ? fmt::format("Span({})", text(index)) : text(index));
  }
  return {fmt::format("{}_{}({})", read.type == Type::kBool ? "truth" : "range",
                      has_range(read) ? "of" : "at", args),
          kPrimary};
}

FormulaText::Part FormulaRanges::part(int place) const {
  if (!f_.varies(place)) return FormulaText::part(place);
  if (is_unknown(place)) return {name_of(place), kPrimary};
  const Node& node = f_.node(place);
  switch (node.op) {
    case Op::kRead:
      return range_of(node);
    case Op::kIndex:
      return {expr::name(static_cast<Index>(node.payload)), kPrimary};
    case Op::kFloorDivide:
      return call("floor_quotient", {argument(place, 0), argument(place, 1)});
    case Op::kModulo:
      return call("floor_remainder", {argument(place, 0), argument(place, 1)});
    case Op::kBitAnd:
      return call("floor_remainder",
                  {argument(place, 0), int_text(f_.node(node.args[1]).payload + 1)});
    case Op::kSelect: {
      const char* type = node.type == Type::kBool ? "Truth" : "Span";
      return call("select", {argument(place, 0), fmt::format("{}({})", type, argument(place, 1)),
                             fmt::format("{}({})", type, argument(place, 2))});
    }
    default:
      break;
  }
  return FormulaText::part(place);
}

}  // namespace attnjit::codegen
