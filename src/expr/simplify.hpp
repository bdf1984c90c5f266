#pragma once
#include "expr/expr.hpp"

namespace attnjit::expr {

/// `e` with constants folded and operations without effect left out. Its value is that of `e` at
/// every point: of ints and bools the same, of floats the same bits (or NaN as well), in fp64 and
/// in fp32. So x * 0.0 stays, for x may be NaN, infinite or negative, and so does x + 0.0, for x
/// may be -0.0; a float is folded where fp32 holds the result exactly. A read may vanish, none is
/// added.
Expr simplify(const Expr& e);

}  // namespace attnjit::expr
