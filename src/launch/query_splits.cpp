#include "launch/query_splits.hpp"

#include <algorithm>

#include "launch/grid.hpp"

namespace attnjit::launch {
namespace {

// Of splitting the queries of a key tile, in tiles of queries: adding dk and dv up in fp32 and
// rounding them is dear.
constexpr SplitCosts kCosts{.start = 2, .combine = 4, .shares_per_tile = 128};
// More rounds of thread blocks than that are full enough.
constexpr std::int64_t kRounds = 4;

// Tiles of queries that see a tile of keys, by causal or window alone: the most that one has, and
// all that those of a head have.
struct SeenTiles {
  std::int64_t most = 0, all = 0;
};

SeenTiles seen_tiles(const BackwardGrid& grid, const BackwardPlanSpec& spec,
                     const problem::Problem& p) {
  const std::int64_t rows = p.seqlen_q, keys = p.seqlen_kv;
  const std::int64_t diagonal = (p.bottom_right ? keys - rows : 0) + p.diagonal_offset;
  SeenTiles seen;
  for (std::int64_t tile = 0; tile < grid.kv_tiles; ++tile) {
    const std::int64_t first = tile * spec.dkv.block_kv;
    const std::int64_t last = std::min(first + spec.dkv.block_kv, keys) - 1;
    const std::int64_t begin = p.bounded_right ? first - diagonal - p.right : 0;
    const std::int64_t end = p.bounded_left ? last - diagonal + p.left + 1 : rows;
    const std::int64_t begin_row = std::max<std::int64_t>(begin, 0), end_row = std::min(end, rows);
    if (begin_row >= end_row) continue;
    const std::int64_t tiles = ceil_div(end_row, spec.dkv.block_q) - begin_row / spec.dkv.block_q;
    seen.most = std::max(seen.most, tiles);
    seen.all += tiles;
  }
  return seen;
}

// Whether each head that shares keys is a share: thread blocks that take all heads one after
// another, of which each has as many tiles of queries as its lists say, would soon be at different
// heads, whose Q, dO and dq together do not stay in L2.
bool takes_heads_apart(const BackwardPlanSpec& spec, const problem::Problem& p) {
  constexpr std::int64_t kCached = 24 << 20;
  const std::int64_t row = 2 * (p.head_dim + p.head_dim_v) + 4 * p.head_dim;
  return spec.dkv.splits_last && p.gqa_ratio() * p.seqlen_q * row > kCached;
}

}  // namespace

std::int32_t query_splits(const BackwardGrid& grid, const BackwardPlanSpec& spec,
                          const problem::Problem& problem) {
  const std::int64_t blocks = grid.kv_planes * grid.kv_tiles, slots = spec.block_slots;
  const std::int64_t heads = problem.gqa_ratio(), tiles = heads * grid.q_tiles;
  if (takes_heads_apart(spec, problem)) return static_cast<std::int32_t>(heads);
  if (!problem.bounded_left && !problem.bounded_right) {
    return choose_splits(blocks, tiles, slots, kCosts);
  }
  const std::int64_t most_splits = blocks == 0 ? 0 : std::min(kRounds * slots / blocks, tiles);
  if (most_splits <= 1) return 1;
  const SeenTiles seen = seen_tiles(grid, spec, problem);
  const std::int64_t all = grid.kv_planes * heads * seen.all;
  // Either the longest share takes longest, or all of them together on as many slots.
  const auto cost = [&](std::int64_t splits) {
    const std::int64_t longest = std::min(ceil_div(tiles, splits), heads * seen.most);
    const std::int64_t each = ceil_div(all + blocks * splits * kCosts.start, slots);
    return std::max(longest + kCosts.start, each) +
           (splits > 1 ? kCosts.combine + splits / kCosts.shares_per_tile : 0);
  };
  std::int64_t best = 1;
  for (std::int64_t splits = 2; splits <= most_splits; ++splits) {
    if (cost(splits) < cost(best)) best = splits;
  }
  return static_cast<std::int32_t>(best);
}

}  // namespace attnjit::launch
