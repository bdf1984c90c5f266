#pragma once
#include <cstdint>
#include <vector>

#include "attnjit/prepass/operand_ranges_config.h"
#include "codegen/formula_ranges.hpp"
#include "problem/problem.hpp"

namespace attnjit::launch {

/// The ranged axes of the operands of a call's keep expression, in their memory: the ranges of all
/// operands, then their lines.
struct OperandRangesLayout {
  std::int32_t length = 0;  ///< of a line
  std::int64_t ranges = 0;  ///< of all lines
  std::int64_t lines = 0;   ///< where they begin, in bytes
  std::int64_t bytes = 0;
};
/// Throws Error(kInvalidProblem) where they are more than a launch takes.
OperandRangesLayout operand_ranges_layout(const std::vector<codegen::RangedAxis>& axes,
                                          const problem::Problem& problem);

/// Gives the operands of `keep`, the parameters of the expression, what `memory` holds of them, and
/// the prepass that writes it its own parameters.
void set_operand_ranges(const std::vector<codegen::RangedAxis>& axes,
                        const problem::Problem& problem, void* memory,
                        kernel::ExpressionParams<kernel::kMaxExpressionOperands>& keep,
                        kernel::OperandRangesParams& prepass);

}  // namespace attnjit::launch
