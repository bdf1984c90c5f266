// Lengths around the edges of each tile of the Hopper forward that configuration 0 takes.
#include "tile_edges.hpp"

#include "base/fields_json.hpp"
#include "tile_configs.hpp"

namespace attnjit::executor_test {
namespace {

// Runs lengths around the edges of a tile.
void expect_edges(TileBench& bench, codegen::ForwardTunables tile, bool causal, bool packs) {
  tile.pack_gqa = packs;
  instance::ProblemSpec spec = {.heads_q = 2, .heads_kv = 1, .head_dim = 16};
  spec.causal = causal;
  if (causal) spec.diagonal = Diagonal::kBottomRight;
  const std::string config = base::dump_json(base::to_json_value(tile));
  for (const auto& around : test::around_tile(spec, tile)) bench.expect_right(around, {config});
}

TEST_CASE("wgmma: the tiles that configuration 0 takes") {
  std::vector<std::pair<int, int>> sizes;
  for (const auto& tile : test::shipped_wgmma_tiles()) {
    sizes.emplace_back(tile.block_q, tile.block_kv);
  }
  for (const auto& size : {std::pair{128, 128},
                           {192, 96},
                           {128, 96},
                           {64, 32},
                           {64, 64},
                           {64, 128},
                           {128, 32},
                           {128, 64}}) {
    CAPTURE(size.first);
    CAPTURE(size.second);
    CHECK(std::ranges::find(sizes, size) != sizes.end());
  }
}

TEST_CASE_FIXTURE(TileBench, "wgmma: lengths around the edges of the widest tile and the longest") {
  for (const auto& tile : test::shipped_wgmma_tiles()) {
    if (tile.block_q == 192) expect_edges(*this, tile, true, false);
    if (tile.block_q == 64 && tile.block_kv == 128) expect_edges(*this, tile, false, false);
  }
}

TEST_CASE_FIXTURE(TileBench, "slow: wgmma: lengths around the edges of every tile") {
  for (const auto& tile : test::shipped_wgmma_tiles()) {
    for (const bool causal : {false, true}) {
      for (const bool packs : {false, true}) expect_edges(*this, tile, causal, packs);
    }
  }
}

}  // namespace
}  // namespace attnjit::executor_test
