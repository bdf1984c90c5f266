#pragma once
#include <optional>

#include "attnjit/score/bias_grad_params.h"
#include "launch/backward_plan_spec.hpp"

namespace attnjit::launch {

/// The partials that a dbias is added up from, where the kernels that compute scores do not
/// complete it.
struct DbiasPartials {
  kernel::BiasGradParams memory;  ///< where they leave it
  std::int32_t batches = 1, heads = 1,
               queries = 1;       ///< partials that an element adds up along an axis
  std::int32_t rows_at_once = 1;  ///< of dbias, that a thread block of the last kernel computes
};

/// None where dbias is complete without a last kernel.
std::optional<DbiasPartials> dbias_partials(const BackwardPlanSpec& spec,
                                            const problem::BackwardProblem& problem,
                                            const BackwardLayout& layout, void* workspace);

}  // namespace attnjit::launch
