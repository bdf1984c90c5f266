#pragma once
#include "problem/problem.hpp"

namespace attnjit::problem {

/// Query rows of a kv head that read selected keys in place, at most: more rows gain more from
/// copies, which suit wgmma and are read tile after tile.
inline constexpr std::int64_t kMostRowsInPlace = 64;

/// Turns `p`, which is complete but for args.key_indices, into the problem of the selected keys;
/// `copies`: never in place. Throws Error(kInvalidProblem) as make_problem().
void select_keys(const ForwardArgs& args, bool copies, Problem& p);

}  // namespace attnjit::problem
