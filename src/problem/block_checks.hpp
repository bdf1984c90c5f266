#pragma once
#include "problem/problem.hpp"

namespace attnjit::problem {

/// Sets the lists of blocks of `p`, whose sizes and expressions are known, and makes them a part of
/// its keep expression. Throws Error(kInvalidProblem) that names the list.
void check_blocks(const ForwardArgs& args, Problem& p);

}  // namespace attnjit::problem
