#include "expr/gradient_form.hpp"

#include <algorithm>
#include <optional>

#include "attnjit/error.hpp"
#include "expr/arithmetic.hpp"
#include "expr/operations.hpp"

namespace attnjit::expr {
namespace {

using Step = std::optional<std::int64_t>;  // nothing where it is not one number

constexpr Uses kPlane = use_of(Index::kBatch) | use_of(Index::kHeadQ) | use_of(Index::kHeadKv);

/// By how much values change from a pair (i, j) to the next one of its diagonal, (i + 1, j + 1).
class Steps {
 public:
  explicit Steps(const Expr& e) : e_(e) {
    for (const Node& node : e.nodes()) steps_.push_back(step_of(node));
  }
  Step of_root() const { return steps_.back(); }

 private:
  Step of(int place) const { return steps_[static_cast<std::size_t>(place)]; }

  Step step_of(const Node& node) const {
    if (node.is(Op::kIndex)) return kUsesPair >> node.payload & 1;
    if (node.is(Op::kScore)) return std::nullopt;
    if (std::ranges::all_of(node.arguments(), [&](int arg) { return of(arg) == Step(0); }))
      return 0;
    const Step x = of(node.args[0]), y = of(node.args[1]);
    const Signature signature = operation(node.op).signature;
    const bool compares = signature == Signature::kOrder || signature == Signature::kEquality;
    if (compares) return x && x == y ? Step(0) : std::nullopt;
    return node.type == Type::kInt && !node.is(Op::kRead) ? step_of_int(node, x, y) : std::nullopt;
  }

  Step step_of_int(const Node& node, Step x, Step y) const {
    const auto constant = [&](int n) { return e_.node(node.args[static_cast<std::size_t>(n)]); };
    switch (node.op) {
      case Op::kNegate:
        return x ? Step(negated(*x)) : std::nullopt;
      case Op::kAdd:
        return x && y ? Step(sum(*x, *y)) : std::nullopt;
      case Op::kSubtract:
        return x && y ? Step(difference(*x, *y)) : std::nullopt;
      case Op::kMultiply:
        if (x && constant(1).is(Op::kLiteral)) return product(*x, int_value(constant(1)));
        if (y && constant(0).is(Op::kLiteral)) return product(*y, int_value(constant(0)));
        return std::nullopt;
      case Op::kMin:
      case Op::kMax:
        return x == y ? x : std::nullopt;
      case Op::kSelect:
        return x == Step(0) && y == of(node.args[2]) ? y : std::nullopt;
      default:
        return std::nullopt;
    }
  }

  const Expr& e_;
  std::vector<Step> steps_;
};

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
                              : use_of(static_cast<Index>(index.payload)) & (kPlane | kUsesPair);
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
    if (index.is(Op::kRead) && distinct_axes(e, index.arguments()) == kUsesPair) {
      ++tables;
    } else {
      others.push_back(place);
    }
  }
  const std::optional<Uses> axes = distinct_axes(e, others);
  return tables == 1 && axes && (*axes & ~use_of(Index::kHeadQ)) == 0;
}

// Whether a float is a product of s and factors without it, or a sum of such.
bool is_multiple_of_score(const Expr& e) {
  const std::vector<Uses> uses = uses_of_nodes(e);
  std::vector<bool> multiples;  // of the nodes
  for (const Node& node : e.nodes()) {
    const auto arg = [&](std::size_t n) { return static_cast<std::size_t>(node.args[n]); };
    const auto is_multiple = [&](std::size_t n) { return multiples[arg(n)]; };
    const auto has_score = [&](std::size_t n) { return (uses[arg(n)] & kUsesScore) != 0; };
    const auto is_side = [&](std::size_t n) {
      return is_multiple(n) || is_literal(e.node(node.args[n]), 0.f);
    };
    bool multiple = node.is(Op::kScore);
    if (node.is(Op::kNegate)) multiple = is_multiple(0);
    if (node.is(Op::kAdd) || node.is(Op::kSubtract)) multiple = is_multiple(0) && is_multiple(1);
    if (node.is(Op::kDivide)) multiple = is_multiple(0) && !has_score(1);
    if (node.is(Op::kMultiply)) {
      multiple = (is_multiple(0) && !has_score(1)) || (is_multiple(1) && !has_score(0));
    }
    if (node.is(Op::kSelect)) multiple = !has_score(0) && is_side(1) && is_side(2);
    multiples.push_back(multiple);
  }
  return multiples.back();
}

}  // namespace

const char* name(GradientForm form) {
  switch (form) {
    case GradientForm::kBlockSums:
      return "block sums";
    case GradientForm::kScale:
      return "scale";
    case GradientForm::kRows:
      return "rows";
    case GradientForm::kKeys:
      return "keys";
    case GradientForm::kDiagonals:
      return "diagonals";
    case GradientForm::kPairs:
      return "pairs";
    case GradientForm::kIndexTable:
      return "index table";
    case GradientForm::kAtomics:
      return "atomics";
  }
  throw Error(ErrorKind::kInternal, "a form of gradients without a name");
}

GradientForm gradient_form(const Expr& read) {
  const Uses used = uses(read);
  if ((used & kUsesScore) != 0) return GradientForm::kAtomics;
  switch (used & kUsesPair) {
    case 0:
      return GradientForm::kBlockSums;
    case use_of(Index::kRow):
      return GradientForm::kRows;
    case use_of(Index::kKey):
      return GradientForm::kKeys;
    default:
      break;
  }
  if (Steps(read).of_root() == Step(0)) return GradientForm::kDiagonals;
  if (distinct_axes(read, read.top().arguments())) return GradientForm::kPairs;
  return is_by_index_table(read) ? GradientForm::kIndexTable : GradientForm::kAtomics;
}

std::optional<ScoreScale> scale_of(const Expr& score, const Expr& by_read) {
  if (!is_multiple_of_score(by_read)) return std::nullopt;
  ScoreScale scale{derivative_by_score(score), derivative_by_score(by_read)};
  const Uses used = uses(scale.slope) | uses(scale.factor);
  if ((used & (kUsesScore | kUsesPair)) != 0) return std::nullopt;
  return scale;
}

std::vector<GradientSite> gradient_sites(const Expr& score, OperandSet operands, Lengths lengths) {
  constexpr Uses kOfLengths =
      use_of(Index::kOffset) | use_of(Index::kNumQueries) | use_of(Index::kNumKeys);
  const Uses of_batch = use_of(Index::kBatch) | (lengths == Lengths::kShared ? 0 : kOfLengths);
  std::vector<GradientSite> sites;
  for (const ReadSite& site : read_sites(score)) {
    const auto found = std::ranges::find(score.operands(), site.operand, &OperandDeclaration::name);
    const int number = static_cast<int>(found - score.operands().begin());
    if ((operands >> number & 1) == 0) continue;
    const Uses used = uses(site.read);
    const bool per_head = (used & use_of(Index::kHeadQ)) != 0;
    GradientForm form = gradient_form(site.read);
    if (form == GradientForm::kBlockSums && scale_of(score, site.factor)) {
      form = GradientForm::kScale;
    }
    const bool any_place = lengths == Lengths::kPacked && form == GradientForm::kPairs;
    sites.push_back({.operand = number,
                     .read = site.read,
                     .factor = site.factor,
                     .form = any_place ? GradientForm::kAtomics : form,
                     .per_batch = (used & of_batch) != 0,
                     .per_head = per_head,
                     .per_kv_head = !per_head && (used & use_of(Index::kHeadKv)) != 0});
  }
  std::ranges::stable_sort(sites, {}, &GradientSite::operand);
  return sites;
}

OperandSet float_operands(const Expr& e) {
  OperandSet set = 0;
  for (std::size_t n = 0; n < e.operands().size(); ++n) {
    if (e.operands()[n].type == Type::kFloat) set |= OperandSet{1} << n;
  }
  return set;
}

}  // namespace attnjit::expr
