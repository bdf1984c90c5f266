#pragma once
#include "launch/backward_plan_spec.hpp"

namespace attnjit::launch {

/// Into how many shares the kernel of dbias splits the batch elements and heads that an element of
/// dbias sums: several where its tiles are too few for the device.
std::int32_t dbias_shares(const BackwardPlanSpec& spec, const problem::BackwardProblem& problem);

}  // namespace attnjit::launch
