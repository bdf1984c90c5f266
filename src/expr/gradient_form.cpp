#include "expr/gradient_form.hpp"

#include <algorithm>
#include <optional>

#include "attnjit/error.hpp"
#include "expr/arithmetic.hpp"

namespace attnjit::expr {
namespace {

using Step = std::optional<std::int64_t>;  // nothing where it is not one number

constexpr Uses kPlane = use_of(Index::kBatch) | use_of(Index::kHeadQ) | use_of(Index::kHeadKv);
constexpr Uses kPair = use_of(Index::kRow) | use_of(Index::kKey);

// By how much ints change from a pair (i, j) to the next one of its diagonal, (i + 1, j + 1).
Step step_of(const Expr& e, const Node& node, const std::vector<Step>& steps) {
  const auto step = [&](int n) { return steps[static_cast<std::size_t>(node.args[n])]; };
  const auto is_constant = [&](int n) { return e.node(node.args[n]).is(Op::kLiteral); };
  const auto number = [&](int n) { return int_value(e.node(node.args[n])); };
  if (node.is(Op::kIndex)) return kPair >> node.payload & 1;
  if (std::ranges::all_of(node.arguments(), [&](int arg) {
        return steps[static_cast<std::size_t>(arg)] == Step(0);
      })) {
    return 0;
  }
  if (node.type != Type::kInt) return std::nullopt;
  switch (node.op) {
    case Op::kNegate:
      return step(0) ? Step(negated(*step(0))) : std::nullopt;
    case Op::kAdd:
      return step(0) && step(1) ? Step(sum(*step(0), *step(1))) : std::nullopt;
    case Op::kSubtract:
      return step(0) && step(1) ? Step(difference(*step(0), *step(1))) : std::nullopt;
    case Op::kMultiply:
      if (step(0) && is_constant(1)) return product(*step(0), number(1));
      if (step(1) && is_constant(0)) return product(*step(1), number(0));
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

bool is_same_along_diagonals(const Expr& read) {
  std::vector<Step> steps;
  for (const Node& node : read.nodes()) steps.push_back(step_of(read, node, steps));
  return steps.back() == Step(0);
}

// The axes that the indices of `node` are, one bit each; nothing if one is no axis, or one is there
// twice. Literals are none, and h and g are the same.
std::optional<Uses> distinct_axes(const Expr& e, std::span<const std::int32_t> indices) {
  Uses axes = 0;
  for (const int place : indices) {
    const Node& index = e.node(place);
    if (index.is(Op::kLiteral)) continue;
    if (!index.is(Op::kIndex)) return std::nullopt;
    const bool is_head =
        index == expr::index(Index::kHeadQ) || index == expr::index(Index::kHeadKv);
    const Uses axis = is_head ? use_of(Index::kHeadQ)
                              : use_of(static_cast<Index>(index.payload)) & (kPlane | kPair);
    if (axis == 0 || (axes & axis) != 0) return std::nullopt;
    axes |= axis;
  }
  return axes;
}

bool is_by_index_table(const Expr& e) {
  int tables = 0;
  std::vector<std::int32_t> others;
  for (const int place : e.top().arguments()) {
    const Node& index = e.node(place);
    if (index.is(Op::kRead) && distinct_axes(e, index.arguments()) == kPair) {
      ++tables;
    } else {
      others.push_back(place);
    }
  }
  const std::optional<Uses> axes = distinct_axes(e, others);
  return tables == 1 && axes && (*axes & ~use_of(Index::kHeadQ)) == 0;
}

}  // namespace

const char* name(GradientForm form) {
  switch (form) {
    case GradientForm::kPlanes:
      return "planes";
    case GradientForm::kDiagonals:
      return "diagonals";
    case GradientForm::kIndexTable:
      return "index table";
    case GradientForm::kBlockSums:
      return "block sums";
    case GradientForm::kAtomics:
      return "atomics";
  }
  throw Error(ErrorKind::kInternal, "a form of gradients without a name");
}

GradientForm gradient_form(const Expr& read) {
  const Uses used = uses(read);
  if ((used & (kPair | kUsesScore)) == 0) return GradientForm::kBlockSums;
  if (distinct_axes(read, read.top().arguments())) return GradientForm::kPlanes;
  if ((used & kUsesScore) == 0 && is_same_along_diagonals(read)) return GradientForm::kDiagonals;
  return is_by_index_table(read) ? GradientForm::kIndexTable : GradientForm::kAtomics;
}

GradientForm gradient_form(std::span<const ReadSite> sites_of_operand) {
  std::optional<GradientForm> form;
  for (const ReadSite& site : sites_of_operand) {
    const GradientForm own = gradient_form(site.read);
    const bool adds_up = own == GradientForm::kDiagonals || own == GradientForm::kBlockSums;
    if (form && (own != *form || !adds_up)) return GradientForm::kAtomics;
    form = own;
  }
  return form.value_or(GradientForm::kBlockSums);
}

}  // namespace attnjit::expr
