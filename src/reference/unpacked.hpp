#pragma once
#include "reference/backward.hpp"

namespace attnjit::reference {

/// As forward() and backward(), for a call whose sequences are not packed and whose shapes are not
/// checked: a mask or bias may have fewer rows and keys than the call, which drops the others.
ForwardResult forward_unpacked(const ForwardArgs& args, Arithmetic arithmetic, const Rows& rows,
                               unsigned jobs, const Planes& planes);
BackwardResult backward_unpacked(const BackwardArgs& args, Arithmetic arithmetic,
                                 const Planes& planes, unsigned jobs);

}  // namespace attnjit::reference
