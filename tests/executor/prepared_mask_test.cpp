// Prepared masks: bits by rows and by keys in the place of bytes, in both passes and on both paths,
// for every shape of the scores.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "mutations.hpp"
#include "wgmma_backward.hpp"

namespace attnjit::executor_test::prepared_mask_test {
namespace {

using instance::ProblemSpec;
using tensor::MaskKind;

ProblemSpec prepared(const char* mask, std::int64_t queries, std::int64_t keys,
                     std::int64_t head_dim = 64) {
  ProblemSpec spec{.batch = 2,
                   .heads_q = 4,
                   .heads_kv = 2,
                   .seqlen_q = queries,
                   .seqlen_kv = keys,
                   .head_dim = head_dim,
                   .mask = mask,
                   .mask_kind = MaskKind::kRandom,
                   .prepare_mask = true};
  spec.poison_dropped_keys = true;
  return spec;
}

ProblemSpec gradients(ProblemSpec spec) {
  spec.backward = spec.want_dlse = true;
  spec.want_dbias = !spec.bias.empty();
  return spec;
}

class PreparedMasks : public Mutations {
 public:
  // Random masks, of which every tile is masked, and others of whole tiles.
  void expect_both_right(ProblemSpec spec, const std::string& config = "{}") {
    expect_right(spec, config);
    spec.mask_kind = MaskKind::kBlocks;
    spec.mask_density = 0.4;
    expect_right(spec, config);
  }
  void expect_right(const ProblemSpec& spec, const std::string& config = "{}") {
    if (bench_.leaves_out()) return;
    CAPTURE(instance::describe(spec));
    CAPTURE(config);
    const codegen::Arch& arch = codegen::find_arch("sm_90a");
    CHECK((spec.backward ? bench_.backward(spec, arch, config)
                         : bench_.forward(spec, arch, config)) == "");
  }

 private:
  Bench bench_;
};

TEST_CASE_FIXTURE(PreparedMasks, "slow: forward: planes, pack_gqa, and splits of the keys") {
  const std::string wgmma = R"({"path":"wgmma"})";
  for (const char* mask : {"bhqk", "bgqk", "1h1k", "111k", "b11k", "11qk"}) {
    expect_both_right(prepared(mask, 197, 333));
    expect_both_right(prepared(mask, 197, 333), wgmma);
  }
  ProblemSpec decode = prepared("bg1k", 3, 3000);
  expect_right(decode);
  decode.mask = "bgqk";
  expect_right(decode);
  ProblemSpec groups = prepared("shqk/2", 70, 130);
  groups.batch = 4;
  expect_right(groups);
  expect_right(groups, wgmma);
}

TEST_CASE_FIXTURE(PreparedMasks, "slow: backward: rows of queries") {
  for (const char* mask : {"bhqk", "1gqk", "b11k", "1h1k"}) {
    expect_both_right(gradients(prepared(mask, 197, 333)));
    expect_both_right(gradients(prepared(mask, 70, 40)), R"({"dkv":{"late":true}})");
    expect_both_right(gradients(prepared(mask, 130, 200)), R"({"dq_method":"kernel"})");
  }
  ProblemSpec groups = gradients(prepared("shqk/2", 70, 130));
  groups.batch = 4;
  groups.bias = "1hqk";
  expect_right(groups);
}

TEST_CASE_FIXTURE(PreparedMasks, "slow: backward: rows of keys") {
  for (const int block_q : {64, 128}) {
    for (const char* mask : {"bhqk", "1gqk", "b11k", "1h1k"}) {
      expect_both_right(gradients(prepared(mask, 197, 333)), wgmma_backward(block_q));
      // One tile of queries of 64 is the last, and words end with it.
      expect_both_right(gradients(prepared(mask, 320, 129)), wgmma_backward(block_q, 2, true));
      expect_both_right(gradients(prepared(mask, 64, 100)), plane_backward(block_q));
    }
  }
  ProblemSpec groups = gradients(prepared("shqk/2", 70, 136));
  groups.batch = 4;
  groups.bias = "11qk";
  expect_right(groups, wgmma_backward(64));
  ProblemSpec dropped = gradients(prepared("bhqk", 150, 136));
  dropped.mask_kind = MaskKind::kDeadRows;
  dropped.causal = true;
  dropped.diagonal = Diagonal::kBottomRight;
  expect_right(dropped, wgmma_backward(64));
}

TEST_CASE_FIXTURE(PreparedMasks, "a mask and a bias over pairs meet beside 128 columns on wgmma") {
  ProblemSpec spec = gradients(prepared("1hqk", 96, 136, 128));
  spec.bias = "11qk";
  expect_right(spec, wgmma_backward(64));
}

TEST_CASE_FIXTURE(PreparedMasks, "slow: backward: wide heads") {
  for (const char* mask : {"bhqk", "1gqk", "b11k"}) {
    expect_both_right(gradients(prepared(mask, 150, 208, 136)), wide_backward());
    expect_both_right(gradients(prepared(mask, 65, 70, 136)));
  }
}

TEST_CASE_FIXTURE(PreparedMasks, "packed sequences have planes of their own, and fewer rows") {
  ProblemSpec spec = prepared("bgqk", 300, 310);
  spec.batch = 3;
  spec.packed = true;
  spec.cu_seqlens_q = {0, 100, 100, 300};
  spec.cu_seqlens_kv = {0, 90, 240, 310};
  expect_right(spec);
  expect_right(spec, R"({"path":"wgmma"})");
  expect_right(gradients(spec));
  spec.operand_queries = 130;
  spec.operand_keys = 77;
  expect_right(spec);
  expect_right(gradients(spec));
  spec.mask = "b11k";
  expect_right(gradients(spec));
}

TEST_CASE_FIXTURE(PreparedMasks, "strides of the mask and odd addresses do not matter") {
  ProblemSpec spec = gradients(prepared("bhqk", 77, 91));
  spec.memory.base_offset = 3;
  spec.memory.row_padding = 5;
  expect_right(spec);
  spec.memory = {.expand_broadcast = true};
  spec.mask = "1gqk";
  expect_right(spec, wgmma_backward(64));
}

TEST_CASE_FIXTURE(PreparedMasks, "slow: caught: bits by keys that are another's") {
  const Run run{gradients(prepared("bhqk", 197, 136)), wgmma_backward(64)};
  const std::string bits = "attnjit/score/mask_bits.cuh";
  expect_report({bits, "+ lane_quarter)", ")"}, run, {"dk", "fail"});
  expect_report({bits, "column + 4 * 8 * i", "column"}, run, {"dk", "fail"});
  expect_report({"attnjit/tile/bit_matrix.cuh", "block > 0;", "block > 1;"}, run, {"dk", "fail"});
  expect_report(
      {"attnjit/prepass/mask_to_bits.cuh", "kMaskTile * kv_tile + lane", "kMaskTile * kv_tile"},
      run, {"mask_to_bits, block ", "bits by keys"});
}

TEST_CASE_FIXTURE(PreparedMasks, "caught: words past the last queries") {
  expect_report({"attnjit/score/mask_bits.cuh", "tile == 0 || tile < num_tiles", "true"},
                {gradients(prepared("11qk", 64, 128)), wgmma_backward(128)},
                {"load_global_now: reads 2 bytes"});
}

TEST_CASE_FIXTURE(PreparedMasks,
                  "caught: a NaN at a key that one head of a kv head keeps no more") {
  ProblemSpec spec = gradients(prepared("1h1k", 64, 100));
  spec.mask_kind = MaskKind::kScattered;
  expect_report({"attnjit/score/backward_mask.cuh", "return (kept & 1) != 0;", "return true;"},
                {spec, wgmma_backward(64)}, {"not finite"});
  expect_report({"attnjit/score/backward_mask.cuh", "kept |= ptx::load_global(source)",
                 "kept = ptx::load_global(source)"},
                {spec, wgmma_backward(64)}, {"fail"});
}

}  // namespace
}  // namespace attnjit::executor_test::prepared_mask_test
