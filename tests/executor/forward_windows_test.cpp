// Windows in the forward of Hopper, whose consumers skip tiles that their own rows do not see, and
// the same without one of its safeguards at a time.
#include <doctest/doctest.h>

#include <random>
#include <string>

#include "mutations.hpp"
#include "packed_problems.hpp"
#include "tile_configs.hpp"

namespace attnjit::executor_test::forward_windows_test {
namespace {

using instance::ProblemSpec;

const std::string kConsumer = "attnjit/forward/wgmma/consumer.cuh";
const std::string kWalk = "attnjit/forward/wgmma/walk.cuh";

// With tiles of 128 rows and 32 keys the first 64 rows of a block skip its last two tiles, and the
// others its first two. The third block has 44 rows, so its second consumer has none.
ProblemSpec window(int left, int right, std::int64_t head_dim = 64) {
  ProblemSpec spec{.heads_q = 3, .heads_kv = 3, .seqlen_q = 300, .seqlen_kv = 280};
  spec.head_dim = head_dim;
  spec.window = {left, right};
  spec.diagonal = Diagonal::kTopLeft;
  spec.poison_dropped_keys = true;
  return spec;
}
const std::string kTiles = wgmma(128, 32);

TEST_CASE_FIXTURE(TileBench, "windows: tiles that some rows of a block see") {
  for (const auto& [left, right] : {std::pair{70, 0}, {0, 0}, {30, 30}, {200, -1}}) {
    expect_right(window(left, right), {kTiles, wgmma(192, 32), wgmma(192, 64), wgmma(192, 96)}, 1);
  }
  // O leaves from registers, and Q is a ring of subtiles.
  expect_right(window(70, 0, 256), {kTiles, wgmma(128, 64)}, 1);
}

TEST_CASE_FIXTURE(TileBench, "windows: consumers without rows or without keys") {
  for (const int offset : {-150, -64, 40, 250}) {
    ProblemSpec spec = window(50, 0);
    spec.diagonal_offset = offset;
    expect_right(spec, {kTiles, wgmma(192, 64)}, 1);
  }
  ProblemSpec spec = window(50, 10);
  spec.batch = 4;
  spec.use_seqlens_q = spec.use_seqlens_kv = true;
  expect_right(spec, {kTiles, wgmma(192, 32)}, 2);
  spec = ragged();
  spec.window = {20, 0};
  spec.diagonal = Diagonal::kBottomRight;
  expect_right(spec, {kTiles, wgmma(192, 64)}, 2);
}

TEST_CASE_FIXTURE(TileBench, "windows: splits, biases, sinks and packed heads") {
  ProblemSpec spec = window(70, 0);
  spec.seqlen_kv = 900;
  spec.heads_q = spec.heads_kv = 1;
  expect_right(spec, {kTiles}, 16);
  spec = window(70, 0);
  spec.bias = "1hqk";
  spec.use_sink = true;
  expect_right(spec, {kTiles, wgmma(192, 32)}, 1);
  spec = window(20, 0);
  spec.heads_q = 12;
  spec.seqlen_q = 70;
  expect_right(spec, {wgmma(128, 32, true)}, 1);
}

TEST_CASE_FIXTURE(TileBench, "windows: beside masks that empty tiles, and as expressions") {
  for (const auto kind : {tensor::MaskKind::kBlocks, tensor::MaskKind::kDeadRows}) {
    ProblemSpec spec = window(70, 0);
    spec.mask = kind == tensor::MaskKind::kBlocks ? "11qk" : "b11k";
    spec.mask_kind = kind;
    spec.mask_density = 0.3;
    expect_right(spec, {kTiles, wgmma(192, 64)}, 1);
  }
  ProblemSpec spec = window(0, 0);
  spec.window = {};
  spec.diagonal = {};
  for (const char* keep : {"j <= i && j > i - 70", "j <= i && j > i - 40 && j // 32 % 3 != 1"}) {
    spec.keep = keep;
    expect_right(spec, {kTiles, wgmma(192, 64)}, 1);
  }
}

TEST_CASE_FIXTURE(TileBench, "slow: windows: 60 problems at random") {
  for (unsigned i = 1; i <= 60; ++i) {
    std::mt19937 random(i);
    const auto below = [&](int end) { return static_cast<int>(random() % end); };
    ProblemSpec spec = window(below(200), below(3) == 0 ? below(100) : 0);
    spec.batch = 1 + below(3);
    spec.heads_q = 2 * (1 + below(2));
    spec.heads_kv = 2;
    spec.seqlen_q = 65 + below(400);
    spec.seqlen_kv = 1 + below(500);
    spec.head_dim = 8 * (1 + below(32));
    spec.diagonal_offset = below(4) == 0 ? below(200) - 100 : 0;
    spec.use_seqlens_q = below(4) == 0;
    spec.use_seqlens_kv = below(4) == 0;
    if (below(3) == 0) {
      spec.mask = below(2) == 0 ? "11qk" : "b11k";
      spec.mask_kind = below(2) == 0 ? tensor::MaskKind::kBlocks : tensor::MaskKind::kRandom;
      spec.mask_density = 0.2 + 0.2 * below(4);
    }
    const bool wide = spec.head_dim > 64;
    expect_right(spec, {wgmma(wide ? 128 : 64 * (2 + below(2)), 32 * (1 + below(2)))},
                 1 + below(4));
  }
}

TEST_CASE_FIXTURE(OneSmMutations, "caught in windows: a tile that is skipped") {
  const Run run = {window(70, 0), kTiles};
  const Run two_buffers = {window(0, 0, 192), wgmma(128, 64)};  // of Q
  const Run ring = {window(70, 0, 256), wgmma(128, 64)};        // of subtiles of Q
  const auto changed = [&](const char* before, const char* after, const Run& on,
                           const char* report) {
    expect_report({kConsumer, before, after}, on, {report});
  };
  changed("release_stored();  // the producer may wait for the buffer before it loads this tile",
          "", two_buffers, "deadlock");
  changed("scheduler_arrive();  // tiles are skipped in turn as well", "", run, "deadlock");
  changed("    release_k(slot);\n    release_v(slot);\n", "    release_v(slot);\n", run,
          "deadlock");
  changed("    release_k(slot);\n    release_v(slot);\n", "    release_k(slot);\n", run,
          "deadlock");
  changed("release_q(next);", ";", ring, "deadlock");
  changed("if (open) multiply_last(slot);", "", run, "fail");
  changed("if (job.first()) next.needs |= ForwardJob::kFirst;", "", run,
          "multiply_async: gets a tile");
}

TEST_CASE_FIXTURE(OneSmMutations, "caught in windows: a consumer without a tile") {
  ProblemSpec spec = window(50, 0);
  spec.diagonal_offset = -64;
  expect_report({kWalk, "if (left == 0) bits &= begun;", ""}, {spec, kTiles}, {"deadlock"});
  expect_report({kWalk, "first_key >= seen.end ||", "first_key + 1 >= seen.end ||"},
                {window(70, 1), kTiles}, {"fail"});
}

}  // namespace
}  // namespace attnjit::executor_test::forward_windows_test
