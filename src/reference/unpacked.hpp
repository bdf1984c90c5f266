#pragma once
#include "reference/backward.hpp"

namespace attnjit::reference {

/// As forward() and backward(), for a call whose sequences are not packed and whose shapes are not
/// checked: a mask or bias may have fewer rows and keys than the call, which drops the others.
/// `first_batch` is what expressions call batch element 0.
ForwardResult forward_unpacked(const ForwardArgs& args, Arithmetic arithmetic, const Rows& rows,
                               unsigned jobs, const Planes& planes, std::int64_t first_batch = 0);
BackwardResult backward_unpacked(const BackwardArgs& args, Arithmetic arithmetic,
                                 const Planes& planes, unsigned jobs, std::int64_t first_batch = 0);

}  // namespace attnjit::reference
