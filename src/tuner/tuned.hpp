#pragma once
#include "codegen/tunables.hpp"
#include "problem/plan_key.hpp"

namespace attnjit::tuner {

/// The passes that are tuned, by what their plans are looked up by.
template <class PlanKey>
struct Tuned;

template <>
struct Tuned<problem::PlanKey> {
  static constexpr const char* kPass = "forward";
  using Tunables = codegen::ForwardTunables;
};

template <>
struct Tuned<problem::BackwardPlanKey> {
  static constexpr const char* kPass = "backward";
  using Tunables = codegen::BackwardTunables;
};

/// The tunables of the problems of a plan key.
template <class PlanKey>
using TunablesFor = typename Tuned<PlanKey>::Tunables;

}  // namespace attnjit::tuner
