#pragma once
#include <algorithm>
#include <vector>

#include "instance/problem_spec.hpp"
#include "tuner/defaults.hpp"

namespace attnjit::test {

/// The tiles of the Hopper forward that configuration 0 takes, each once.
inline std::vector<codegen::ForwardTunables> shipped_wgmma_tiles() {
  std::vector<codegen::ForwardTunables> tiles;
  for (const auto& rule : tuner::built_in_defaults().forward.rules()) {
    if (rule.use.path != codegen::Path::kWgmma) continue;
    if (std::ranges::find(tiles, rule.use) == tiles.end()) tiles.push_back(rule.use);
  }
  return tiles;
}

/// `spec` with lengths around the edges of a tile: one row and one key less, as many, and one more.
/// Where heads share a tile a row less is a query less, of all of them.
inline std::vector<instance::ProblemSpec> around_tile(const instance::ProblemSpec& spec,
                                                      const codegen::ForwardTunables& tile) {
  const std::int64_t heads = tile.pack_gqa ? spec.heads_q / spec.heads_kv : 1;
  std::vector<instance::ProblemSpec> list;
  for (const int rows : {-1, 0, 1}) {
    for (const int keys : {-1, 0, 1}) {
      list.push_back(spec);
      list.back().seqlen_q = tile.block_q / heads + rows;
      list.back().seqlen_kv = tile.block_kv + keys;
    }
  }
  return list;
}

}  // namespace attnjit::test
