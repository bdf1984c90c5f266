#pragma once
#include <string>

#include "tuner/defaults.hpp"

namespace attnjit::tuner {

/// Configuration 0: what a problem runs with where nothing has been measured. A pure function of
/// family, length buckets and architecture (Traits); legal for every problem of the family.
codegen::ForwardTunables config_zero(const problem::PlanKey& key, const codegen::Arch& arch,
                                     const Defaults& defaults = built_in_defaults());
codegen::BackwardTunables config_zero(const problem::BackwardPlanKey& key,
                                      const codegen::Arch& arch,
                                      const Defaults& defaults = built_in_defaults());

/// Configuration 0 whose main kernel takes `path`. Throws Error(kUnsupported) that says why that
/// does not serve problems of `key` on `arch`.
codegen::ForwardTunables config_zero_on(codegen::Path path, const problem::PlanKey& key,
                                        const codegen::Arch& arch);
codegen::BackwardTunables config_zero_on(codegen::Path path, const problem::BackwardPlanKey& key,
                                         const codegen::Arch& arch);

/// The reason why configuration 0 that takes Path::kMma on `arch`, in a backward for dk and dv,
/// does not take wgmma.
std::string why_mma(const problem::PlanKey& key, const codegen::Arch& arch);
std::string why_mma(const problem::BackwardPlanKey& key, const codegen::Arch& arch);

}  // namespace attnjit::tuner
