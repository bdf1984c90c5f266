#pragma once
#include "codegen/arch.hpp"
#include "problem/family.hpp"

namespace attnjit::tuner {

/// Configuration 0: the forward kernel's tile where nothing has been measured. A pure function of
/// family, length buckets and architecture; legal for every problem of the family and compiled
/// without a spill (tests/unit/runtime_grid_test.cpp).
kernel::ForwardConfig config_zero(const problem::PlanKey& key, const codegen::Arch& arch);

}  // namespace attnjit::tuner
