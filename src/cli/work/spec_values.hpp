#pragma once
#include "explain/pairs.hpp"
#include "instance/problem_spec.hpp"

namespace attnjit::cli {

/// What `spec` says of the values of its tensors: where packed sequences begin, and which share of
/// tiles its random mask or lists of blocks keep.
explain::Values values_of(const instance::ProblemSpec& spec);

}  // namespace attnjit::cli
