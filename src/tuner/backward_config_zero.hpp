#pragma once
#include "codegen/backward_tunables.hpp"

namespace attnjit::tuner {

/// What a backward runs with where nothing has been measured. A pure function of family, length
/// buckets and architecture; legal for every problem of the family.
codegen::BackwardTunables config_zero(const problem::BackwardPlanKey& key,
                                      const codegen::Arch& arch);

}  // namespace attnjit::tuner
