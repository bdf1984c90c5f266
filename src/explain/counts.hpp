#pragma once
#include <string>
#include <vector>

#include "explain/pairs.hpp"
#include "launch/backward_plan_spec.hpp"
#include "launch/forward_plan_spec.hpp"

namespace attnjit::explain {

/// A tensor of a call, or memory that its kernels hand to each other.
struct Traffic {
  std::string name;
  double bytes = 0;  ///< that go between the device's memory and its caches, each element once
};

/// The work of all kernels of a call.
struct Counts {
  Pairs pairs;
  double tensor_flop = 0;    ///< of matrix products over walked pairs
  double exponentials = 0;   ///< of walked pairs, each time that scores are computed
  double reduced_bytes = 0;  ///< added up in fp32 by atomics or the copy engine
  std::vector<Traffic> traffic;
  double idle = 0;  ///< share of the device that has no tile while the last ones run
  std::vector<std::string> kernels;  ///< that are launched, in order

  double memory_bytes() const;
};

Counts count(const launch::ForwardPlanSpec& spec, const problem::Problem& problem,
             const Values& values);
Counts count(const launch::BackwardPlanSpec& spec, const problem::BackwardProblem& problem,
             const Values& values);

}  // namespace attnjit::explain
