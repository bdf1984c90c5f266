#include "launch/dbias_shares.hpp"

#include "launch/grid.hpp"

namespace attnjit::launch {
namespace {

// Of splitting what an element of dbias sums, in batch elements and heads: another kernel adds the
// shares up, as fast as it reads fp32.
constexpr SplitCosts kSharerSplitCosts{.start = 2, .combine = 4, .shares_per_tile = 32};

}  // namespace

kernel::BiasPlanes walked_planes(const BackwardPlanSpec& spec,
                                 const problem::BackwardProblem& problem) {
  const problem::BiasGradient& g = problem.dbias;
  const problem::Operand& bias = problem.forward.bias;
  switch (spec.tunables.dbias_method) {
    case codegen::DbiasMethod::kPerBlock:
      return {g.batches, g.heads, g.queries, g.keys};
    case codegen::DbiasMethod::kNone:
      if (spec.sites.in_dkv) {
        const SiteLayout site = site_layout_of(spec, *spec.sites.in_dkv, problem);
        return {site.batches, site.heads, 1, 1};
      }
      if (bias.extent != problem::Extent::kAbsent) {
        return {bias.num_batches, bias.num_heads, bias.queries, bias.keys};
      }
      // The addends of a head's scores stay in registers.
      if (problem.forward.score &&
          (problem.forward.score->uses & expr::use_of(expr::Index::kHeadQ))) {
        return {1, problem.forward.num_heads_q, 1, 1};
      }
      [[fallthrough]];
    default:
      return {1, 1, 1, 1};
  }
}

std::int32_t dbias_shares(const BackwardPlanSpec& spec, const problem::BackwardProblem& problem) {
  const problem::Problem& p = problem.forward;
  const std::int64_t pairs = std::int64_t{p.batch} * p.num_heads_q;
  if (spec.sites.in_dkv) return site_layout_of(spec, *spec.sites.in_dkv, problem).shares;
  if (spec.dkv.single_tile) {
    const kernel::BiasPlanes walked = walked_planes(spec, problem);
    const std::int64_t planes = std::int64_t{walked.batches} * walked.heads;
    return choose_splits(planes, pairs / planes, spec.block_slots, kSharerSplitCosts);
  }
  const problem::BiasGradient& g = problem.dbias;
  const std::int64_t planes = std::int64_t{g.batches} * g.heads;
  if (spec.dkv.shared_bias) {
    const std::int64_t strips = kernel::ceil_div(p.seqlen_kv, spec.dkv.block_kv);
    return choose_splits(planes * strips, pairs / planes, spec.block_slots, kSharerSplitCosts);
  }
  const std::int64_t tiles = std::int64_t{kernel::ceil_div(g.queries, spec.dbias_kernel->block_q)} *
                             kernel::ceil_div(g.keys, spec.dbias_kernel->block_kv);
  return choose_splits(planes * tiles, pairs / planes, spec.dbias_slots, kSharerSplitCosts);
}

}  // namespace attnjit::launch
