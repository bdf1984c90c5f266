#pragma once
#include "problem/problem.hpp"

namespace attnjit::problem {

/// Sets the expressions of `p`, whose sizes are known, and their operands. Throws
/// Error(kInvalidProblem) that names the operand, or shows the place in the text with a caret.
void check_expressions(const ForwardArgs& args, Problem& p);

}  // namespace attnjit::problem
