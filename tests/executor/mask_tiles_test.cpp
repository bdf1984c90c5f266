// Masks are classified by 64 queries and 64 keys, whatever the tiles of a kernel: those that are
// parts of a class, several, or neither.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "mutations.hpp"

namespace attnjit::executor_test {
namespace {

using instance::ProblemSpec;

ProblemSpec blocks(const char* mask, std::int64_t queries, std::int64_t keys) {
  ProblemSpec spec{.batch = 2,
                   .heads_q = 4,
                   .heads_kv = 2,
                   .seqlen_q = queries,
                   .seqlen_kv = keys,
                   .head_dim = 64,
                   .mask = mask,
                   .mask_kind = tensor::MaskKind::kBlocks,
                   .mask_density = 0.4};
  spec.poison_dropped_keys = true;
  return spec;
}

// Tiles of keys of which the classes of 64 are parts, and not; of rows likewise, and with two heads
// of each query.
const std::vector<std::string> kTiles = {
    R"({"block_q":16,"num_warps":1,"block_kv":32,"num_stages":1})",
    R"({"block_q":96,"num_warps":6,"block_kv":96})",
    R"({"block_q":64,"num_warps":4,"block_kv":160,"num_stages":1})",
    R"({"block_q":96,"num_warps":6,"block_kv":64,"pack_gqa":true})",
    R"({"path":"wgmma","block_q":128,"block_kv":160,"num_stages":2})",
    R"({"path":"wgmma","block_q":192,"block_kv":96,"num_stages":2,"pack_gqa":true})",
    R"({"path":"wgmma","block_q":64,"block_kv":32,"num_stages":2})"};

class MaskTiles : public Mutations {};

TEST_CASE_FIXTURE(MaskTiles, "slow: tiles of every size unite the classes that they touch") {
  Bench bench;
  for (const std::string& config : kTiles) {
    for (const char* mask : {"b1qk", "1gqk", "b11k"}) {
      CAPTURE(mask);
      CAPTURE(config);
      CHECK(bench.forward(blocks(mask, 197, 333), codegen::find_arch("sm_90a"), config) == "");
    }
  }
}

TEST_CASE_FIXTURE(MaskTiles, "caught: a class that a tile forgets") {
  const std::string classes = "attnjit/score/mask_classes.cuh";
  const Run run{blocks("b1qk", 197, 333), kTiles[1]};
  expect_report({classes, "any |= use != TileUse::kSkip;", "any = use != TileUse::kSkip;"}, run,
                {"max error", "rows fail"});
  expect_report({classes, "all &= use == TileUse::kPlain;", "all = use == TileUse::kPlain;"}, run,
                {"max error", "rows fail"});
  // A tile of 96 touches one class more than it has rows for.
  expect_report({classes, "kMaskTile - step + size, kMaskTile", "size - step, kMaskTile"}, run,
                {"max error", "rows fail"});
}

TEST_CASE_FIXTURE(MaskTiles, "caught: words past the end of a row") {
  expect_report(
      {"attnjit/score/mask_bits.cuh", "kInside || g < num_groups", "true"},
      {blocks("11qk", 40, 384), kTiles[2]},
      {"load_global_written: reads 4 bytes at byte 4 of mask classes", "which ends 2 bytes later"});
}

}  // namespace
}  // namespace attnjit::executor_test
