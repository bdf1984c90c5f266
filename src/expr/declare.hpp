#pragma once
#include <span>
#include <vector>

#include "attnjit/expression.hpp"
#include "expr/node.hpp"

namespace attnjit::expr {

/// What a call's operands are called, their types and ranks. Throws Error(kInvalidProblem) for a
/// null name, a rank or a dtype that there is none of, and as check_declarations() does.
std::vector<OperandDeclaration> declarations(std::span<const attnjit::Operand> operands);

}  // namespace attnjit::expr
