#include "cli/work/expression_facts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/expression_code.hpp"

namespace attnjit::cli {
namespace {

// The name of an operand of an expression, which may be another argument of the call.
std::string name_of(const problem::ExpressionOperand& operand, std::span<const Operand> operands) {
  using problem::ExpressionOperand;
  switch (operand.argument) {
    case ExpressionOperand::kListedBlocks:
    case ExpressionOperand::kFullBlocks:
      return "blocks";
    case ExpressionOperand::kSelectedKeys:
      return "key_indices";
    case ExpressionOperand::kKeyNumbers:
      return "the numbers of keys";
    case ExpressionOperand::kMask:
      return "mask";
    case ExpressionOperand::kBias:
      return "bias";
    case ExpressionOperand::kSlopes:
      return "alibi_slopes";
    default:
      return operands[static_cast<std::size_t>(operand.argument)].name;
  }
}

std::string ranged_names(const std::vector<codegen::RangedAxis>& axes,
                         const problem::Problem& problem, std::span<const Operand> operands) {
  std::vector<std::string> names;
  for (const codegen::RangedAxis& axis : axes) {
    names.push_back(name_of(problem.keep_operands[axis.operand], operands));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string keep_facts(const problem::Problem& problem, bool packs_heads,
                       const std::vector<codegen::RangedAxis>& axes,
                       std::span<const Operand> operands) {
  const expr::Interned& keep = *problem.keep;
  std::string text = "keep: every tile is masked";
  if (codegen::knows_tiles(keep, packs_heads)) {
    text = "keep: empty tiles are skipped, full ones not masked";
    if (!axes.empty()) {
      text += fmt::format(", by ranges of {}", ranged_names(axes, problem, operands));
    }
  }
  if (problem::rows_rise(problem)) text += "; rows are shared out as causal ones";
  if (!expr::key_conjuncts(keep.expression).empty()) text += "; has keys that no row reads";
  return text;
}

std::string score_facts(const problem::Problem& problem) {
  const expr::Expr& score = problem.score->expression;
  if (const auto cap = codegen::cap_of(score)) return fmt::format("score: a softcap of {}", *cap);
  if (codegen::addend_of(score)) return "score: adds to s, so that its gradient is that of s";
  return "score: changes s, so that the backward multiplies by slopes";
}

std::vector<std::string> facts(const problem::Problem& problem, bool packs_heads,
                               const std::vector<codegen::RangedAxis>& axes,
                               std::span<const Operand> operands) {
  std::vector<std::string> lines;
  if (problem.keep) lines.push_back(keep_facts(problem, packs_heads, axes, operands));
  if (problem.score) lines.push_back(score_facts(problem));
  return lines;
}

// Whether the sums of a form have the same bits every time.
const char* repeats(expr::GradientForm form) {
  if (form == expr::GradientForm::kAtomics) return "not deterministic";
  return form == expr::GradientForm::kScale ? "deterministic where dq is" : "deterministic";
}

// The form in which one read of an operand adds to its gradient, and the memory of that.
std::string gradient_facts(const expr::GradientSite& site, const launch::SiteLayout& layout,
                           const problem::BackwardProblem& problem,
                           std::span<const Operand> operands) {
  const auto number = static_cast<std::size_t>(site.operand);
  constexpr std::int64_t kSumBytes = sizeof(float), kNumberBytes = sizeof(std::int32_t);
  const std::int64_t bytes = layout.entries * (layout.shares * kSumBytes + kNumberBytes) +
                             layout.copies * layout.elements * kSumBytes;
  return fmt::format("gradient of {}: {}, {}, {} bytes",
                     name_of(problem.forward.score_operands[number], operands),
                     expr::name(site.form), repeats(site.form), bytes);
}

}  // namespace

std::vector<std::string> expression_facts(const launch::ForwardPlanSpec& spec,
                                          const problem::Problem& problem,
                                          std::span<const Operand> operands) {
  return facts(problem, spec.facts.pack_gqa_heads > 1, spec.ranged_axes, operands);
}
std::vector<std::string> expression_facts(const launch::BackwardPlanSpec& spec,
                                          const problem::BackwardProblem& problem,
                                          std::span<const Operand> operands) {
  std::vector<std::string> lines = facts(problem.forward, false, spec.ranged_axes, operands);
  const launch::BackwardLayout layout = launch::workspace_layout(spec, problem);
  for (std::size_t n = 0; n < spec.sites.list.size(); ++n) {
    lines.push_back(gradient_facts(spec.sites.list[n], layout.sites[n], problem, operands));
    if (spec.sites.in_dkv == n) lines.back() += ", by attn_bwd_dkv";
  }
  return lines;
}

}  // namespace attnjit::cli
