#pragma once
#include "attnjit/forward_config.h"
#include "codegen/backward_tunables.hpp"
#include "problem/backward_problem.hpp"

namespace attnjit::tuner {

/// The passes that are tuned, by what their plans are looked up by.
template <class PlanKey>
struct Tuned;

template <>
struct Tuned<problem::PlanKey> {
  static constexpr const char* kPass = "forward";
  using Config = kernel::ForwardConfig;
};

template <>
struct Tuned<problem::BackwardPlanKey> {
  static constexpr const char* kPass = "backward";
  using Config = codegen::BackwardTunables;
};

/// What is chosen for the problems of a plan key.
template <class PlanKey>
using ConfigFor = typename Tuned<PlanKey>::Config;

}  // namespace attnjit::tuner
