#pragma once
#include "expr/expr.hpp"

namespace attnjit::expr {

/// `e` with i, j and off counted in a whole of which a call has the rows from row_offset on and the
/// keys from key_offset on: i + row_offset, j + key_offset, off + (key_offset - row_offset). An
/// expression that names row_offset or key_offset adds them itself, and is returned as it is.
Expr placed(const Expr& e);

}  // namespace attnjit::expr
