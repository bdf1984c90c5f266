#include "instance/forward_results.hpp"

#include <algorithm>
#include <cmath>

#include "attnjit/score/sink_params.h"
#include "reference/score_tiles.hpp"
#include "tensor/fill.hpp"

namespace attnjit::instance {

reference::ForwardResult write_forward_results(const ForwardArgs& call, unsigned jobs) {
  const reference::Rows rows = reference::Rows::every();
  reference::ForwardResult result =
      reference::forward(call, reference::Arithmetic::kRounded, rows, jobs);
  const reference::ScoreRule rule(call);
  const reference::BlockContext context{call, rule, rows};
  for (std::size_t row = 0; row < result.lse.size(); ++row) {
    const auto head = static_cast<std::int64_t>(row) / call.q.shape[2] % call.q.shape[1];
    const auto sink = static_cast<float>(context.sink(head));
    const auto lse = static_cast<float>(result.lse[row]);
    const bool lifts = !result.dead[row] && std::isfinite(sink) && !std::isnan(lse);
    call.lse[row] = lifts ? std::max(lse, kernel::least_live_lse(sink)) : lse;
  }
  tensor::store_dense(call.out, result.out);
  return result;
}

}  // namespace attnjit::instance
