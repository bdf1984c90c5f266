#pragma once
#include <string>

#include "problem/backward_problem.hpp"

namespace attnjit::problem {

/// `problem` as a line of a manifest (configs/schema/manifest.schema.json), named by its
/// description. Strides are kept as far as a manifest can say them: the layout.
std::string manifest_line(const Problem& problem);
std::string manifest_line(const BackwardProblem& problem);

}  // namespace attnjit::problem
