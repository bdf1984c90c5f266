#include "launch/dbias_shares.hpp"

#include "launch/grid.hpp"

namespace attnjit::launch {
namespace {

// Of splitting what an element of dbias sums, in batch elements and heads: another kernel adds the
// shares up, as fast as it reads fp32.
constexpr SplitCosts kSharerSplitCosts{.start = 2, .combine = 4, .shares_per_tile = 32};

}  // namespace

std::int32_t dbias_shares(const BackwardPlanSpec& spec, const problem::BackwardProblem& problem) {
  const problem::BiasGradient& g = problem.dbias;
  const std::int64_t planes = std::int64_t{g.batches} * g.heads;
  const std::int64_t tiles = std::int64_t{kernel::ceil_div(g.queries, spec.dbias_kernel->block_q)} *
                             kernel::ceil_div(g.keys, spec.dbias_kernel->block_kv);
  const std::int64_t sharers =
      std::int64_t{problem.forward.batch} * problem.forward.num_heads_q / planes;
  return choose_splits(planes * tiles, sharers, spec.dbias_slots, kSharerSplitCosts);
}

}  // namespace attnjit::launch
