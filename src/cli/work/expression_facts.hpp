#pragma once
#include <span>
#include <string>
#include <vector>

#include "attnjit/expression.hpp"
#include "launch/backward_plan_spec.hpp"

namespace attnjit::cli {

/// The facts that plans derive from the expressions of a problem, a line each: "keep: ..." and
/// "score: ..."; empty without expressions. `operands` are those of the call.
std::vector<std::string> expression_facts(const launch::ForwardPlanSpec& spec,
                                          const problem::Problem& problem,
                                          std::span<const Operand> operands);
std::vector<std::string> expression_facts(const launch::BackwardPlanSpec& spec,
                                          const problem::BackwardProblem& problem,
                                          std::span<const Operand> operands);

}  // namespace attnjit::cli
