#pragma once
#include "tuner/defaults.hpp"

namespace attnjit::tuner {

/// Configuration 0: what a problem runs with where nothing has been measured. A pure function of
/// family, length buckets and architecture (Traits); legal for every problem of the family.
codegen::ForwardTunables config_zero(const problem::PlanKey& key, const codegen::Arch& arch,
                                     const Defaults& defaults = built_in_defaults());
codegen::BackwardTunables config_zero(const problem::BackwardPlanKey& key,
                                      const codegen::Arch& arch,
                                      const Defaults& defaults = built_in_defaults());

}  // namespace attnjit::tuner
