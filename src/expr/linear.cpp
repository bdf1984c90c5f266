#include "expr/linear.hpp"

#include <algorithm>
#include <vector>

#include "expr/interval.hpp"

namespace attnjit::expr {
namespace {

// Sums of a few such ints are int64 as well.
constexpr std::int64_t kFarFromWrapping = std::int64_t{1} << 60;

// Whether an int stays far from wrapping, with indices and operands of any int32.
bool cannot_wrap(const Expr& e) {
  const IntRange any{std::numeric_limits<std::int32_t>::min(),
                     std::numeric_limits<std::int32_t>::max()};
  Box box;
  box.indices.of.fill(any);
  std::vector<OperandRanges> operands;
  for (const OperandDeclaration& operand : e.operands()) {
    const Range elements = operand.type == Type::kInt ? Range::of(any) : Range::all(operand.type);
    operands.push_back({{1, 1, 1, 1}, [elements](auto) { return elements; }});
  }
  box.operands = operands;
  const IntRange values = range(e, box).ints;
  return values.first >= -kFarFromWrapping && values.last <= kFarFromWrapping;
}

}  // namespace

std::optional<Linear> LinearForms::of(int place) {
  const std::optional<Linear> found = form(place);
  if (!found || std::abs(found->row) > 1 || std::abs(found->key) > 1) return std::nullopt;
  return cannot_wrap(graph_.finish(place)) ? found : std::nullopt;
}

Linear LinearForms::difference(const Linear& a, const Linear& b) {
  const Linear minus = negative(b);
  return {a.row + minus.row, a.key + minus.key, sum(a.rest, minus.rest)};
}

std::optional<Linear> LinearForms::form(int place) {
  const Node node = graph_[place];
  if (node == index(Index::kRow)) return Linear{1, 0, {}};
  if (node == index(Index::kKey)) return Linear{0, 1, {}};
  if (node.is(Op::kAdd) || node.is(Op::kSubtract)) {
    const auto a = form(node.args[0]), b = form(node.args[1]);
    if (!a || !b) return std::nullopt;
    const Linear second = node.is(Op::kAdd) ? *b : negative(*b);
    return Linear{a->row + second.row, a->key + second.key, sum(a->rest, second.rest)};
  }
  if (node.is(Op::kNegate)) {
    const auto a = form(node.args[0]);
    return a ? std::optional(negative(*a)) : std::nullopt;
  }
  if ((uses(graph_.finish(place)) & kUsesPair) != 0) return std::nullopt;
  return Linear{0, 0, is_literal(node, std::int64_t{0}) ? std::nullopt : std::optional(place)};
}

Linear LinearForms::negative(const Linear& a) {
  return {-a.row, -a.key,
          a.rest ? std::optional(make_.make(Op::kNegate, {*a.rest})) : std::nullopt};
}

std::optional<int> LinearForms::sum(std::optional<int> a, std::optional<int> b) {
  if (!a || !b) return a ? a : b;
  return make_.make(Op::kAdd, {*a, *b});
}

}  // namespace attnjit::expr
