// The largest scores of rows and heads, on each path and softmax.
#include <doctest/doctest.h>

#include <array>
#include <string>
#include <vector>

#include "bench.hpp"
#include "mutations.hpp"

namespace attnjit::executor_test::max_logits_test {
namespace {

using instance::ProblemSpec;
using tensor::BiasKind;
using tensor::MaskKind;

const std::string kWgmma =
    R"({"path": "wgmma", "block_q": 128, "block_kv": 64, "num_stages": 2, "pack_gqa": false})";
const std::string kPackedWgmma =
    R"({"path": "wgmma", "block_q": 64, "block_kv": 64, "num_stages": 2, "pack_gqa": true})";
const std::string kMaxFree = R"({"softmax": "max_free"})";
const std::string kRunningMax = R"({"softmax": "running_max"})";
const std::string kPacked = R"({"pack_gqa": true, "block_q": 16, "block_kv": 32, "num_warps": 1})";
const std::string kAlone = R"({"pack_gqa": false, "block_q": 16, "block_kv": 32, "num_warps": 1})";

class MaxLogits {
 public:
  void expect_right(const ProblemSpec& spec,
                    const std::vector<std::string>& configs = {kMaxFree, kRunningMax, kWgmma},
                    int sm_count = 0) {
    codegen::Arch arch = codegen::find_arch("sm_90a");
    if (sm_count > 0) arch.sm_count = sm_count;
    for (const std::string& config : configs) {
      if (bench_.leaves_out()) continue;
      CAPTURE(instance::describe(spec));
      CAPTURE(config);
      CHECK(bench_.forward(spec, arch, config) == "");
    }
  }

 private:
  Bench bench_;
};

const ProblemSpec kSmall = {.batch = 2,
                            .heads_q = 4,
                            .heads_kv = 2,
                            .seqlen_q = 70,
                            .seqlen_kv = 152,
                            .head_dim = 64,
                            .want_row_max = true,
                            .want_max_logits = true};
// Keys that several thread blocks share.
const ProblemSpec kDecode = {.heads_q = 8,
                             .heads_kv = 2,
                             .seqlen_q = 3,
                             .seqlen_kv = 904,
                             .head_dim = 64,
                             .want_row_max = true,
                             .want_max_logits = true};

TEST_CASE_FIXTURE(MaxLogits, "largest scores: of rows, of heads, or of both") {
  for (ProblemSpec spec : {kSmall, kDecode}) {
    for (const bool rows : {true, false}) {
      spec.want_row_max = rows;
      expect_right(spec);
      spec.want_lse = !spec.want_lse;
    }
    spec.want_row_max = true;
    spec.want_max_logits = false;
    expect_right(spec);
  }
}

TEST_CASE_FIXTURE(MaxLogits, "slow: largest scores: scaled in the exponent or before") {
  ProblemSpec spec = kSmall;
  spec.dtype = DType::kFloat16;
  for (const float scale : {-0.3f, 0.0f, 4.0f, 1e-3f}) {
    spec.scale = scale;
    expect_right(spec);
  }
  spec.softcap = 2.0f;
  spec.bias = "1hqk";
  spec.alibi = "bh";
  spec.diagonal = Diagonal::kBottomRight;
  spec.causal = true;
  expect_right(spec);
  for (const BiasKind kind : {BiasKind::kMinusInfinity, BiasKind::kLowest, BiasKind::kHugeLogit,
                              BiasKind::kVeryNegative}) {
    spec.bias_kind = kind;
    expect_right(spec);
  }
}

TEST_CASE_FIXTURE(MaxLogits, "largest scores: a bias over queries alone shifts them") {
  ProblemSpec spec = kSmall;
  spec.bias = "bgq1";
  spec.bias_kind = BiasKind::kMinusInfinity;
  for (const char* const mask : {"", "1hq1"}) {
    spec.mask = mask;
    expect_right(spec);
  }
}

TEST_CASE_FIXTURE(MaxLogits,
                  "largest scores: dead rows and heads, lengths, and sinks beside them") {
  ProblemSpec spec = kSmall;
  spec.mask = "bhqk";
  spec.use_sink = true;
  spec.sinks = {80.0f, -1.0f};
  spec.use_seqlens_q = spec.use_seqlens_kv = true;
  spec.poison_dropped_keys = true;
  for (const MaskKind kind : {MaskKind::kDeadRows, MaskKind::kDeadHead, MaskKind::kAllFalse}) {
    spec.mask_kind = kind;
    expect_right(spec);
  }
}

TEST_CASE_FIXTURE(MaxLogits, "slow: largest scores: pack_gqa and split keys") {
  ProblemSpec spec = kDecode;
  expect_right(spec, {kPacked, kAlone, kPackedWgmma});
  spec.bias = "1hqk";
  spec.mask = "b1qk";
  spec.mask_kind = MaskKind::kDeadRows;
  spec.use_sink = true;
  expect_right(spec, {kPacked, kAlone, kPackedWgmma});
}

TEST_CASE_FIXTURE(MaxLogits, "largest scores: packed sequences, and rows of none") {
  ProblemSpec spec = kSmall;
  spec.batch = 5;
  spec.packed = true;
  spec.seqlen_q = spec.seqlen_kv = 260;
  spec.cu_seqlens_q = {0, 100, 100, 101, 166, 200};
  spec.cu_seqlens_kv = {0, 90, 97, 97, 162, 226};
  spec.poison_dropped_keys = true;
  expect_right(spec);
  spec.bias = "1h1t";
  expect_right(spec, {kMaxFree, kRunningMax});
}

TEST_CASE_FIXTURE(MaxLogits,
                  "largest scores: several blocks of rows for a thread block of Hopper") {
  ProblemSpec spec = kSmall;
  spec.seqlen_q = 300;
  spec.causal = true;
  spec.diagonal = Diagonal::kBottomRight;
  expect_right(spec, {kWgmma}, 1);
  spec.head_dim = 256;  // two parts of Q, for a third one has no room
  expect_right(spec, {kWgmma}, 1);
}

TEST_CASE_FIXTURE(MaxLogits, "slow: largest scores: heads of 128 and 256 columns") {
  ProblemSpec spec = kSmall;
  spec.bias = "b1qk";
  for (const std::int64_t width : {128, 256}) {
    spec.head_dim = width;
    expect_right(spec);
  }
}

TEST_CASE_FIXTURE(MaxLogits, "largest scores: -inf where there is no key, row or batch element") {
  ProblemSpec spec = kSmall;
  spec.seqlen_kv = 0;
  expect_right(spec);
  spec.seqlen_q = 0;
  expect_right(spec);
  spec.batch = 0;
  spec.seqlen_q = 70;
  spec.want_row_max = false;
  expect_right(spec);
}

TEST_CASE_FIXTURE(MaxLogits, "largest scores: more rows than a thread block, in batches of one") {
  ProblemSpec spec{.batch = 600,
                   .heads_q = 2,
                   .heads_kv = 1,
                   .seqlen_q = 1,
                   .seqlen_kv = 5,
                   .head_dim = 8,
                   .want_max_logits = true};
  expect_right(spec, {kAlone});
  spec.batch = 3;
  spec.seqlen_q = 513;
  expect_right(spec, {kMaxFree});
}

TEST_CASE_FIXTURE(Mutations,
                  "slow: caught: a largest score of other keys, unscaled, or of other rows") {
  const std::string maxima = "attnjit/tile/row_maxima.cuh", row_max = "attnjit/score/row_max.cuh";
  const std::string fails = "row_max of 70 rows fails";
  expect_report({maxima, "fmaxf(highest[m][h], scores.row_max(m, h))", "scores.row_max(m, h)"},
                {kSmall, kMaxFree}, {"rows fails", "batch 0 head 0: row_max of"});
  expect_report({maxima, "return ptx::quad_max(highest[m][h]);", "return highest[m][h];"},
                {kSmall, kMaxFree}, {"row_max of"});
  for (const auto& [file, maximum, config] :
       {std::array{std::string("attnjit/forward/mma/kernel.cuh"), std::string("maxima.of(m, h)"),
                   kMaxFree},
        std::array{std::string("attnjit/forward/wgmma/epilogue.cuh"),
                   std::string("maxima.of(rows_index, h)"), kWgmma}}) {
    expect_report({file, maximum + " * scale", maximum}, {kSmall, config},
                  {fails, "head 3: max_logits of 1 rows fails"});
  }
  ProblemSpec shifted = kSmall;
  shifted.bias = "1hq1";
  expect_report({row_max, "features.finish(block, owner, row);", ""}, {shifted, kWgmma}, {fails});
  ProblemSpec dead = kSmall;
  dead.mask = "11q1";
  dead.mask_kind = MaskKind::kDeadRows;
  expect_report({row_max, "row.sum == 0.0f ? -ptx::infinity() : row.max", "row.max"},
                {dead, kWgmma}, {"row_max of", "want -inf"});
  expect_report({row_max, "(ptx::lane_index() & 3) == 0 && ", ""}, {kSmall, kMaxFree},
                {"of row_max [1, 1, 1, 560], which this kernel has written already"});
  expect_report({row_max, "owner.query < block.seqlen_q", "owner.query <= block.seqlen_q"},
                {kSmall, kMaxFree}, {"store_global_if: writes", "row_max [1, 1, 1, 560]"});
}

TEST_CASE_FIXTURE(Mutations, "caught: maxima that the next block of rows takes the place of") {
  ProblemSpec spec = kSmall;
  spec.heads_q = spec.heads_kv = 140;  // two blocks of rows for a thread block
  spec.batch = 1;
  expect_report({"attnjit/tile/row_maxima.cuh", "((index & 1) * 2 + h)", "h"}, {spec, kWgmma},
                {"row_max of"});
}

TEST_CASE_FIXTURE(Mutations,
                  "caught: a combine or a reduction that misses some, or does not wait") {
  const std::string combine = "attnjit/forward/combine.cuh",
                    heads = "attnjit/forward/max_logits.cuh";
  const std::string no_wait = "wait_for_previous_kernel is missing";
  expect_report(
      {combine, "params.partial_row_max + row * params.num_splits", "params.partial_row_max + row"},
      {kDecode, kAlone}, {"row_max of"});
  expect_report({combine, "if (warp != 0) return;", ""}, {kDecode, kAlone},
                {"of row_max [1, 1, 1, 24], which this kernel has written already"});
  expect_report({heads, "ptx::wait_for_previous_kernel();  // which writes the rows", ""},
                {kDecode, kAlone}, {"max_logits, block 0, ", no_wait});
  expect_report({heads, "ptx::block_sync();  // the maxima of all warps are there", ""}, {kSmall},
                {"max_logits, block 0, ", "load_shared_4: reads shared memory at +"});
  expect_report({heads, "batch < params.batch", "batch + 1 < params.batch"}, {kSmall},
                {"max_logits of", "the largest of its row_max is"});
  expect_report({heads, "params.num_heads_q + head;", "params.num_heads_q;"}, {kSmall},
                {"max_logits of"});
}

}  // namespace
}  // namespace attnjit::executor_test::max_logits_test
