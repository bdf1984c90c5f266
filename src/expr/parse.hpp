#pragma once
#include <span>
#include <string_view>

#include "expr/make.hpp"

namespace attnjit::expr {

/// The expression that `text` spells in the grammar of docs/reference/expressions.md, as the float
/// of a score or the bool of a keep. Throws Error(kInvalidProblem) whose message ends with a caret
/// under the place: what is no part of the grammar, a name that is neither its nor among
/// `operands`, a type that an operation does not take, a text beyond kMaxText, kMaxDepth or
/// kMaxSize. Operands that the text does not name are no part of the result.
Expr parse(Kind kind, std::string_view text, std::span<const OperandDeclaration> operands);

/// Reads the output of canonical_text(), whose names declare the operands. Throws as parse() does.
Expr parse_canonical(Kind kind, std::string_view text);

}  // namespace attnjit::expr
