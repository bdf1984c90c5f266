#pragma once
#include "codegen/tunables.hpp"
#include "problem/plan_key.hpp"

namespace attnjit::tuner {

/// Configuration 0: what a problem runs with where nothing has been measured. A pure function of
/// family, length buckets and architecture; legal for every problem of the family. A forward's
/// compiles without a spill (tests/grid).
codegen::ForwardTunables config_zero(const problem::PlanKey& key, const codegen::Arch& arch);
codegen::BackwardTunables config_zero(const problem::BackwardPlanKey& key,
                                      const codegen::Arch& arch);

}  // namespace attnjit::tuner
