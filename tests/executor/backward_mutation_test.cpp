// As mutation_test.cpp, for the backward's kernels.
#include "mutations.hpp"

namespace attnjit::executor_test::backward_mutation_test {
namespace {

using instance::ProblemSpec;

const std::string kBackward = "attnjit/backward/mma/dkv.cuh";
const std::string kScores = "attnjit/backward/mma/scores.cuh";
const std::string kLiveRows = "attnjit/tile/live_rows.cuh";
const std::string kBiasGrad = "attnjit/score/bias_grad.cuh";

// Rows and keys end within a tile, and there are two tiles of each.
const ProblemSpec kSmall = {.seqlen_q = 70, .seqlen_kv = 100, .head_dim = 64, .backward = true};

// Tiles of queries take turns in one buffer or in two; queries are not split.
const std::string kAlternating =
    R"({"split": false, "dkv": {"block_q": 32, "block_kv": 64, "num_stages": 1}})";
const std::string kRing =
    R"({"split": false, "dkv": {"block_q": 32, "block_kv": 64, "num_stages": 2}})";

ProblemSpec with_bias(ProblemSpec spec) {
  spec.bias = "11qk";
  spec.want_dbias = true;
  return spec;
}

TEST_CASE_FIXTURE(Mutations, "caught: a barrier of the backward that is missing") {
  const std::string no_barrier = "with no barrier of the block in between";
  const Mutation arrival = {
      kScores,
      "ptx::block_sync();  // the tiles are there for all; all are done with the job before", ""};
  expect_report(arrival, {kSmall, kAlternating}, {"attn_bwd_dkv, block ", "shared memory at +"});
  expect_report(arrival, {kSmall, kRing}, {"attn_bwd_dkv, block ", "shared memory at +"});
  expect_report({kBackward, "ptx::block_sync();  // P and dS are complete", ""},
                {kSmall, kAlternating}, {"attn_bwd_dkv, block ", "shared memory at +"});
  expect_report(
      {kScores, "ptx::block_sync();  // all are done with the tiles that are loaded next", ""},
      {kSmall, kAlternating}, {"copy_async_16_if: writes shared memory at +", no_barrier});
  expect_report(
      {kBackward, "ptx::block_sync();  // all warps have read K and V, which dK and dV overwrite",
       ""},
      {kSmall, kRing}, {"store_shared_4: writes shared memory at +", no_barrier});
}

TEST_CASE_FIXTURE(Mutations, "caught: score gradients that are overwritten before dq has them") {
  // Half of the warps have no scores: they add dq of the tile before meanwhile.
  const std::string deferring =
      R"({"split": false, "dkv": {"block_q": 64, "block_kv": 64, "num_stages": 1, "num_warps": 8,
          "query_warps": 2, "late": false, "fresh": "none"}})";
  expect_report({kBackward, "ds_slot ^= 1;", ""}, {kSmall, deferring},
                {"attn_bwd_dkv, block ", "shared memory at +"});
  expect_report({kBackward, "if constexpr (kDefersDq) add_deferred_dq();\n    bias_grad.leave_head",
                 "bias_grad.leave_head"},
                {kSmall, deferring}, {"dq:"});
}

TEST_CASE_FIXTURE(Mutations, "caught: rows that are not live, read all the same") {
  // One row more: it lies beside the tensor. The last tile begins at row 64.
  expect_report(
      {kLiveRows, "const bool valid = ((i < 64 ? low : high) >> (i & 63) & 1) != 0;",
       "const bool valid = ((i < 64 ? low : high) >> (i & 63) & 1) != 0 || row + i == 6;"},
      {kSmall, kAlternating},
      {"attn_bwd_dkv, block ", "copy_async_16_if: reads 16 bytes",
       "past the end of q [1, 1, 70, 64]"});
  ProblemSpec odd = kSmall;
  odd.head_dim = 40;
  odd.poison_dropped_keys = true;  // NaN in dout of dead rows
  odd.mask = "11qk";
  odd.mask_kind = tensor::MaskKind::kDeadRows;
  odd.seqlen_q = 64;  // every row exists
  expect_report({kLiveRows, "[&](int row) { return live.has(row); }", "[](int) { return true; }"},
                {odd}, {"not finite"});
}

TEST_CASE_FIXTURE(Mutations, "caught: a bias asked for ahead where there is none") {
  ProblemSpec spec = with_bias(kSmall);
  spec.seqlen_kv = 104;  // rows in 16-byte vectors: others are not asked for
  const std::string late = R"({"dkv": {"late": true}})";
  expect_report({"attnjit/score/bias.cuh", "prefetch_l2(plane + (",
                 "prefetch_l2(plane + (static_cast<int64>(1) << 40) + ("},
                {spec, late}, {"attn_bwd_dkv, block ", "prefetch_l2: reads 1 bytes"});
}

TEST_CASE_FIXTURE(Mutations, "caught: a dbias written past its end, or not everywhere") {
  expect_report(
      {kBiasGrad, "if (row + 16 * m + 8 * h >= kernel.block.operand_queries) continue;",
       "if (row + 16 * m + 8 * h > kernel.block.operand_queries) continue;"},
      {with_bias(kSmall)},
      {"attn_bwd_dkv, block ", "store_global: writes ", "past the end of dbias [1, 1, 70, 100]"});
  ProblemSpec causal = with_bias(kSmall);
  causal.causal = true;
  causal.diagonal = Diagonal::kTopLeft;
  // The zeros of tiles that have no kept score.
  expect_report({kBiasGrad,
                 "store(kernel, zero, plane_of(kernel.block.batch, head), q_tile * "
                 "Kernel::kBlockQ, kv_tile,\n"
                 "            span);",
                 ""},
                {causal, kAlternating}, {"dbias: ", "elements were never written"});
}

TEST_CASE_FIXTURE(Mutations, "caught: a share of dbias that has all batch elements") {
  ProblemSpec spec = with_bias(kSmall);
  spec.batch = 12;
  spec.seqlen_q = spec.seqlen_kv = 40;
  spec.deterministic = true;
  expect_report({"attnjit/backward/mma/sharers.cuh", "next_sharer = batch_plane % shares * share;",
                 "next_sharer = 0;"},
                {spec, "{}"}, {"dbias:"});
}

TEST_CASE_FIXTURE(Mutations, "caught: a gradient that is not scaled") {
  expect_report({kBackward, "stage_rows(k_tile(), dk, k_share(), params.scale);",
                 "stage_rows(k_tile(), dk, k_share(), 1.0f);"},
                {kSmall, kAlternating}, {"dk:"});
}

}  // namespace
TEST_CASE_FIXTURE(Mutations,
                  "caught: the derivative of a softcap, left out or put on dbias as well") {
  ProblemSpec spec = with_bias(kSmall);
  spec.softcap = 0.5f;
  const std::string warps = R"({"dkv": {"num_warps": 4, "query_warps": 2}})";
  expect_report({kBackward, "      this->apply(slopes, ds);", ""}, {spec, warps}, {"dq:"});
  expect_report({kBackward, "      bias_grad.add(*this, ds, kv_tile, span);",
                 "      this->apply(slopes, ds);\n      bias_grad.add(*this, ds, kv_tile, span);"},
                {spec, warps}, {"dbias:"});
}

TEST_CASE_FIXTURE(Mutations, "caught: a dead row of a head with a sink that counts as live") {
  const ProblemSpec spec{.seqlen_q = 70,
                         .seqlen_kv = 100,
                         .head_dim = 64,
                         .mask = "11qk",
                         .mask_kind = tensor::MaskKind::kDeadRows,
                         .use_sink = true,
                         .backward = true,
                         .want_dlse = true,
                         .want_dsink = true,
                         .poison_dropped_keys = true};
  expect_report({"attnjit/backward/preprocess.cuh", " && lse != sink_of(plane)", ""},
                {spec, kAlternating}, {"dv:"});
  expect_report({"attnjit/backward/preprocess.cuh", "* delta : dlse;", "* delta : 0.0f;"},
                {spec, kAlternating}, {"dsink:"});
}

TEST_CASE_FIXTURE(Mutations, "caught: fp16 probabilities that are rounded as small as they are") {
  // A bias per key, from 0 down to -16: as many queries as a single weak key needs to show.
  const ProblemSpec spec{.dtype = DType::kFloat16,
                         .seqlen_q = 700,
                         .seqlen_kv = 128,
                         .head_dim = 64,
                         .bias = "111k",
                         .bias_kind = tensor::BiasKind::kGraded,
                         .backward = true};
  expect_report({"attnjit/backward/params.h", "return dtype == DType::kFloat16 ? 16384.0f : 1.0f;",
                 "return 1.0f;"},
                {spec, kAlternating}, {"dv:"});
}

}  // namespace attnjit::executor_test::backward_mutation_test
