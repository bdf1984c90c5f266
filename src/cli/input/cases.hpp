#pragma once
#include <string>

#include "instance/problem_spec.hpp"
#include "problem/backward_problem.hpp"

namespace attnjit::cli {

/// One problem to work on, from flags or from an entry of a manifest.
struct Case {
  std::string name;
  std::string source;  ///< where the shape comes from; may be empty
  instance::ProblemSpec spec;
  bool merges = false;  ///< its results are parts that Context::merge_lse merges
};

/// `spec`, checked and in canonical form. Throws Error(kInvalidProblem) for a spec that
/// contradicts itself, Error(kUnsupported) for a sound one that the library does not serve.
problem::Problem make_problem(const instance::ProblemSpec& spec);
problem::BackwardProblem make_backward_problem(const instance::ProblemSpec& spec);

/// Whether there is nothing to compute. Throws as make_problem().
bool is_empty(const instance::ProblemSpec& spec);

/// Bytes of all tensors of `spec`, as a HostProblem allocates them without its guards.
double tensor_bytes(const instance::ProblemSpec& spec);

}  // namespace attnjit::cli
