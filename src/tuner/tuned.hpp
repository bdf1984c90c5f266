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
  using Config = kernel::ForwardConfig;
};

template <>
struct Tuned<problem::BackwardPlanKey> {
  using Config = codegen::BackwardTunables;
};

/// What records of a backward say of their pass. Those of a forward, which came first, say nothing.
inline constexpr const char* kBackwardPass = "backward";

/// What is chosen for the problems of a plan key.
template <class PlanKey>
using ConfigFor = typename Tuned<PlanKey>::Config;

}  // namespace attnjit::tuner
