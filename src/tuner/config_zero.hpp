#pragma once
#include "codegen/arch.hpp"
#include "problem/family.hpp"

namespace attnjit::tuner {

/// Configuration 0: the forward kernel's tile where nothing has been measured. A pure function of
/// family, length buckets and architecture; legal for every problem of the family and compiled
/// without a spill (tests/unit/runtime_grid_test.cpp).
kernel::ForwardConfig config_zero(const problem::PlanKey& key, const codegen::Arch& arch);

/// The prepass that packs the mask of a forward kernel with this tile.
kernel::MaskPackConfig mask_pack_config(const problem::Family& family,
                                        const kernel::ForwardConfig& config);

}  // namespace attnjit::tuner
