#pragma once
#include <string>

#include "problem/backward_problem.hpp"

namespace attnjit::problem {

/// `problem` as a line of a manifest (configs/schema/manifest.schema.json), named by its
/// description. Strides are kept as far as a manifest can say them: the layout.
std::string manifest_line(const Problem& problem);
std::string manifest_line(const BackwardProblem& problem);

/// The words for a problem in messages about its kernels.
struct ProblemText {
  std::string description;
  std::string manifest_line;    ///< empty where a manifest has none for it alone
  std::string manifest_member;  ///< which one in the entry of another problem covers it then
};

template <class AnyProblem>
ProblemText problem_text(const AnyProblem& problem) {
  return {describe(problem), manifest_line(problem)};
}

}  // namespace attnjit::problem
