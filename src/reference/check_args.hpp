#pragma once
#include "attnjit/backward.hpp"

namespace attnjit::reference {

/// Throws Error(kInvalidProblem) unless the shapes and options of `args` fit together well enough
/// to be computed without reading outside a tensor.
void check_args(const ForwardArgs& args);
void check_args(const BackwardArgs& args);

}  // namespace attnjit::reference
