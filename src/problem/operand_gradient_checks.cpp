#include "problem/operand_gradient_checks.hpp"

#include <algorithm>
#include <limits>

#include "expr/operations.hpp"
#include "problem/checks.hpp"

namespace attnjit::problem {
namespace {

using namespace checks;
using expr::GradientForm;
using expr::GradientSite;
using expr::Index;

// The number of the score's operand that is the call's operand `argument`, or -1.
std::int32_t number_of(std::size_t argument, const Problem& p) {
  if (!p.score) return -1;
  for (std::size_t n = 0; n < p.score->dtypes.size(); ++n) {
    if (p.score_operands[n].argument == static_cast<std::int32_t>(argument)) {
      return static_cast<std::int32_t>(n);
    }
  }
  return -1;
}

OperandGradient checked(const attnjit::Operand& operand, std::size_t argument,
                        const Tensor& gradient, const Problem& p) {
  if (operand.tensor.dtype == DType::kInt32 || operand.tensor.dtype == DType::kBool) {
    reject("operand_gradients: {} is {}, which has no gradient; expected none", operand.name,
           name(operand.tensor.dtype));
  }
  if (gradient.dtype != operand.tensor.dtype) {
    reject("operand_gradients: that of {} is {}; expected {} (as the operand)", operand.name,
           name(gradient.dtype), name(operand.tensor.dtype));
  }
  OperandGradient result{.number = number_of(argument, p),
                         .tensor = {.argument = static_cast<std::int32_t>(argument),
                                    .dtype = gradient.dtype,
                                    .rank = operand.rank}};
  Tensor used = gradient;
  std::int64_t elements = 1;
  for (std::size_t axis = 0; axis < used.shape.size(); ++axis) {
    if (axis >= static_cast<std::size_t>(operand.rank)) {
      used.shape[axis] = 1;
      continue;
    }
    const std::int64_t size = operand.tensor.shape[axis];
    if (used.shape[axis] != size) {
      reject("operand_gradients: axis {} of that of {} is {}; expected {} (as the operand)", axis,
             operand.name, used.shape[axis], size);
    }
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    if (size > 0 && elements > kMost / size) {
      reject("operand_gradients: {} has too many elements; expected at most {}", operand.name,
             kMost);
    }
    elements *= size;
    result.tensor.sizes[axis] = size;
    result.tensor.strides[axis] = size == 1 ? 0 : used.strides[axis];
  }
  check_memory(operand.name, used);
  check_no_overlap(operand.name, used);
  return result;
}

// Pairs are written where they belong: an axis may hold more than the problem has, but not fewer,
// unless it has one element for all.
void check_pair_axes(const GradientSite& site, const char* name, const ExpressionOperand& operand,
                     const Problem& p) {
  const auto full = [&](Index index) -> std::int64_t {
    switch (index) {
      case Index::kBatch:
        return p.batch;
      case Index::kHeadQ:
        return p.num_heads_q;
      case Index::kHeadKv:
        return p.num_heads_kv;
      case Index::kRow:
        return p.seqlen_q;
      default:
        return p.seqlen_kv;
    }
  };
  for (std::size_t axis = 0; axis < site.read.top().num_args; ++axis) {
    const expr::Node& index = site.read.node(site.read.top().args[axis]);
    if (!index.is(expr::Op::kIndex)) continue;
    const auto which = static_cast<Index>(index.payload);
    const std::int64_t size = operand.sizes[axis], least = full(which);
    const bool shared = size == 1 && which != Index::kRow && which != Index::kKey;
    if (size < least && !shared) {
      reject(
          "operand_gradients: axis {} of {} is {}; expected at least {}, for its index is {} "
          "(where one element serves all, read it at 0)",
          axis, name, size, least, expr::name(which));
    }
  }
}

}  // namespace

void check_operand_gradients(const BackwardArgs& args, BackwardProblem& p) {
  const std::span<const attnjit::Operand> operands = args.forward.operands;
  if (args.operand_gradients.size() != operands.size()) {
    reject("operand_gradients: {}; expected {} (as many as operands), or none",
           args.operand_gradients.size(), operands.size());
  }
  expr::OperandSet in_score = 0;
  for (std::size_t n = 0; n < operands.size(); ++n) {
    if (args.operand_gradients[n].data == nullptr) continue;
    const auto place = static_cast<std::size_t>(p.num_operand_gradients++);
    if (place == kMaxOperandGradients) {
      reject("operand_gradients: that of {} is one too many; expected at most {}", operands[n].name,
             kMaxOperandGradients);
    }
    p.operand_gradients[place] = checked(operands[n], n, args.operand_gradients[n], p.forward);
    const std::int32_t number = p.operand_gradients[place].number;
    if (number >= 0) in_score |= expr::OperandSet{1} << number;
  }
  if (in_score == 0) return;
  // No check depends on planes, which is all that kOwn and kShared differ in.
  const std::vector<GradientSite> sites =
      expr::gradient_sites(p.forward.score->expression, in_score,
                           p.forward.packed ? expr::Lengths::kPacked : expr::Lengths::kOwn);
  if (sites.size() > kMaxGradientSites) {
    reject("operand_gradients: the score reads these operands in {} ways; expected at most {}",
           sites.size(), kMaxGradientSites);
  }
  for (const GradientSite& site : sites) {
    const ExpressionOperand& operand =
        p.forward.score_operands[static_cast<std::size_t>(site.operand)];
    const char* const name = operands[static_cast<std::size_t>(operand.argument)].name;
    if ((expr::uses(site.read) & expr::kUsesScore) != 0) {
      reject("operand_gradients: {} is read at an index that depends on s; expected none that does",
             name);
    }
    if (site.form == GradientForm::kPairs) check_pair_axes(site, name, operand, p.forward);
    if (site.form == GradientForm::kAtomics && p.deterministic) {
      reject(
          "operand_gradients: that of {} is added up by atomics, which is not deterministic; "
          "expected an index made of i alone, of j alone or of j - i, or table[i, j]",
          name);
    }
  }
}

}  // namespace attnjit::problem
