#pragma once
#include "problem/backward_problem.hpp"

namespace attnjit::problem {

/// Sets the gradients of operands of `p`, whose other members are known. Throws
/// Error(kInvalidProblem) that names the operand, what it has and what is allowed.
void check_operand_gradients(const BackwardArgs& args, BackwardProblem& p);

}  // namespace attnjit::problem
