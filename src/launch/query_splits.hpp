#pragma once
#include <cstdint>

#include "launch/backward_plan_spec.hpp"

namespace attnjit::launch {

/// The number of thread blocks that share the queries of a tile of keys, in the kernel of dk and dv
/// of a problem without packed sequences whose tiles and planes `grid` has. Under a causal mask or
/// in a window tiles of keys differ in how many queries see them, and those that have most come
/// first.
std::int32_t query_splits(const BackwardGrid& grid, const BackwardPlanSpec& spec,
                          const problem::Problem& problem);

}  // namespace attnjit::launch
