#pragma once
#include "attnjit/score/bias_grad_params.h"
#include "launch/backward_plan_spec.hpp"

namespace attnjit::launch {

/// The planes that thread blocks of path single_tile share out: of a dbias that adds up planes, or
/// of a bias that has none, so that it stays in registers; one of all else.
kernel::BiasPlanes walked_planes(const BackwardPlanSpec& spec,
                                 const problem::BackwardProblem& problem);

/// Into how many shares the kernel of dbias splits the batch elements and heads that an element of
/// dbias sums: several where its tiles are too few for the device. On path single_tile those of
/// walked_planes().
std::int32_t dbias_shares(const BackwardPlanSpec& spec, const problem::BackwardProblem& problem);

}  // namespace attnjit::launch
