#pragma once
#include <string>
#include <vector>

#include "expr/expr.hpp"

namespace attnjit::expr {

/// The text of `e` with the names of its operands: as few brackets as the grammar needs, literals
/// of fp32 with the fewest digits that name them, conversions of ints to floats written out.
/// parse() of it is the same expression. Throws Error(kInvalidProblem) for an expression, as of a
/// derivative, that is larger than kMaxSize.
std::string print(const Expr& e);

/// The same with `names` for its operands, in its order.
std::string print(const Expr& e, const std::vector<std::string>& names);

/// The same with operands called by type and number in the order of the text: f0, i1, b2. Two
/// expressions have one such text just if they are same(). parse_canonical() reads it.
std::string canonical_text(const Expr& e);

}  // namespace attnjit::expr
