#pragma once

#include "launch/backward_plan_spec.hpp"

namespace attnjit::launch {

/// The order in which thread blocks of the kernel of dk and dv take tiles of keys, and in which
/// these meet their queries: who waits for whom at dq, what is in L2, and who is last depend on it.
/// docs/lab/hopper-backward.md, "The order of places", has what was measured.
void order_work_tiles(BackwardGrid& grid, const BackwardPlanSpec& spec,
                      const problem::BackwardProblem& problem);

}  // namespace attnjit::launch
