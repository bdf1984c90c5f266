#include "launch/backward_order.hpp"

#include <algorithm>

#include "launch/grid.hpp"

namespace attnjit::launch {
namespace {

using kernel::DqOrder;

// Under a causal mask the first keys have the most queries. They begin first, so that work tiles
// that take little time are left for the end. All begin with the last queries, which all of them
// see: these come to L2 once, and where work tiles add to dq in order, each is a tile behind the
// one before it. Heads that share keys go abreast, for else every head would begin with such a
// wait; a section then reads more, and half as many kv heads were fastest. Shares of split queries
// take one head after another, so that each has some of all lengths.
void go_down(BackwardGrid& grid, const problem::Problem& problem, std::int64_t wave) {
  // Tiles of packed sequences see few others: four kv heads, not one, took 4 % less time at 8, 9
  // and 64 sequences of 16384 tokens, and 1 % more at 128 (16 heads of 128 columns, H100,
  // 2026-11-26).
  constexpr std::int64_t kPackedPlanes = 4;
  const int gqa_ratio = problem.gqa_ratio();
  grid.last_queries_first = true;
  if (grid.splits == 1) grid.heads_abreast = gqa_ratio;
  grid.section_planes = problem.packed   ? kPackedPlanes
                        : gqa_ratio == 1 ? wave
                                         : std::max<std::int64_t>(wave / 2, 2);
}

// Last keys, which have the fewest queries, begin first and with the first queries that they see.
// Tiles before them need these later, so that none waits; but what takes longest is last.
void go_up(BackwardGrid& grid, std::int64_t wave) {
  grid.last_keys_first = true;
  grid.section_planes = std::max(grid.section_planes, wave);
}

// Whether waiting costs less than work tiles that take long at the end, as it did where heads share
// keys, and of up to 32 tiles of keys that have 64 queries a tile.
bool waits_little(const BackwardGrid& grid, const BackwardPlanSpec& spec, int gqa_ratio) {
  const bool small_tiles = spec.dkv.block_q == 64;
  return gqa_ratio > 1 || (small_tiles && grid.kv_tiles <= 32);
}

// The first sections, whose work tiles begin before anybody could have set their sums to zero, are
// left to the kernel before.
void plan_zeros(BackwardGrid& grid, int block_slots) {
  const std::int64_t work_tiles = grid.section_planes * grid.kv_tiles * grid.splits;
  const std::int64_t ahead = ceil_div(block_slots, work_tiles);
  if (ahead * grid.section_planes >= grid.kv_planes) return;
  grid.zeros_ahead = static_cast<std::int32_t>(ahead);
}

}  // namespace

void order_work_tiles(BackwardGrid& grid, const BackwardPlanSpec& spec,
                      const problem::BackwardProblem& problem) {
  const problem::Problem& p = problem.forward;
  if (grid.kv_tiles == 0 || grid.q_tiles == 0) return;
  const bool causal = problem::rows_rise(p);
  const DqOrder order = spec.dkv.dq_order;
  // kv heads whose tiles the device holds at a time
  const std::int64_t wave = spec.block_slots / grid.kv_tiles;
  if (spec.dkv.takes_orders && causal &&
      (order != DqOrder::kKeys || waits_little(grid, spec, p.gqa_ratio()))) {
    go_down(grid, p, wave);
  } else if (causal) {
    // The key tiles of a kv head read Q and dO of its query heads.
    const std::int64_t bytes =
        std::int64_t{2} * p.seqlen_q * (p.head_dim + p.head_dim_v) * p.gqa_ratio();
    grid.section_planes = choose_section(bytes, 1, grid.kv_planes);
    if (order == DqOrder::kKeys) go_up(grid, wave);
  } else if (order == DqOrder::kKeys) {
    // Places of a kv head that begin at the same time wait for each other, a tile each: half as
    // many as one has tiles of queries.
    const std::int64_t tiles = std::int64_t{grid.q_tiles} * p.gqa_ratio();
    grid.section_planes = ceil_div(std::int64_t{2} * spec.block_slots, tiles);
  } else if (order == DqOrder::kFirstStores) {
    // First keys have stored a tile of queries by the time that others come to it.
    grid.section_planes = wave;
  } else if (batch_fastest(p)) {
    // Elements of the batch that share a bias meet its tiles at the same time, and add to those of
    // dbias while L2 has them: a run of them, or all runs that take planes by turns.
    grid.section_planes =
        std::int64_t{p.bias.cycle.period} * p.run_length(p.bias.num_batches, p.bias.cycle);
  }
  grid.section_planes = std::max<std::int64_t>(std::min(grid.section_planes, grid.kv_planes), 1);
  if (spec.dkv.takes_orders && spec.adds_dq() && !spec.dkv.orders_dq() && !p.packed &&
      !batch_fastest(p)) {
    plan_zeros(grid, spec.block_slots);
  }
}

}  // namespace attnjit::launch
