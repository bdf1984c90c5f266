#pragma once
#include <string>
#include <vector>

#include "attnjit/backward.hpp"
#include "problem/backward_problem.hpp"

namespace attnjit::explain {

/// The forward whose scores a problem of either pass computes.
inline const problem::Problem& forward_of(const problem::Problem& problem) { return problem; }
inline const problem::Problem& forward_of(const problem::BackwardProblem& problem) {
  return problem.forward;
}

/// A call changed in one respect, to see what that costs. It reads what the original points to, and
/// stands for no call: addresses that it adds are no memory.
template <class Args>
struct Change {
  std::string what;  ///< a feature that is left out, or what a caller can do
  Args args;
  double once_bytes = 0;  ///< read and written before the first call, beside it
};

/// `args` without each of its features: mask, bias, band and others.
std::vector<Change<ForwardArgs>> without_features(const ForwardArgs& args);
std::vector<Change<BackwardArgs>> without_features(const BackwardArgs& args);

/// Changes by a caller that may make a call faster, as sentences that begin with a verb.
/// `problem` is that of `args`.
std::vector<Change<ForwardArgs>> actions(const ForwardArgs& args, const problem::Problem& problem);
std::vector<Change<BackwardArgs>> actions(const BackwardArgs& args,
                                          const problem::BackwardProblem& problem);

}  // namespace attnjit::explain
