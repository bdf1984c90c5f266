#pragma once
#include "problem/problem.hpp"

namespace attnjit::problem {

/// Turns `p`, which is complete but for args.key_indices, into the problem of the selected keys.
/// Throws Error(kInvalidProblem) as make_problem().
void select_keys(const ForwardArgs& args, Problem& p);

}  // namespace attnjit::problem
