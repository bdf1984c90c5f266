#pragma once
#include <span>
#include <vector>

#include "attnjit/expression.hpp"
#include "expr/node.hpp"

namespace attnjit::expr {

/// The names, types and ranks of a call's operands. Throws Error(kInvalidProblem) for a
/// null name, a rank or a dtype that there is none of, and as check_declarations() does.
std::vector<OperandDeclaration> declarations(std::span<const attnjit::Operand> operands);

}  // namespace attnjit::expr
