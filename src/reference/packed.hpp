#pragma once
#include "reference/backward.hpp"

namespace attnjit::reference {

/// As forward() and backward(), for packed sequences whose shapes fit: each is computed as a call
/// of its own. Rows and keys of no sequence get 0, and an lse of -inf.
ForwardResult forward_packed(const ForwardArgs& args, Arithmetic arithmetic, const Rows& rows,
                             unsigned jobs, const Planes& planes);
BackwardResult backward_packed(const BackwardArgs& args, Arithmetic arithmetic,
                               const Planes& planes, unsigned jobs);

}  // namespace attnjit::reference
