// The Hopper forward without one of its safeguards at a time: each must lead to the report that
// names it.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "mutations.hpp"

namespace attnjit::executor_test::wgmma_mutation_test {
namespace {

using instance::ProblemSpec;

const std::string kProducer = "attnjit/forward/wgmma/producer.cuh";
const std::string kConsumer = "attnjit/forward/wgmma/consumer.cuh";
const std::string kEpilogue = "attnjit/forward/wgmma/epilogue.cuh";
const std::string kShared = "attnjit/forward/wgmma/shared.cuh";
const std::string kEntry = "attnjit/forward/wgmma/kernel.cuh";

// On one SM: several blocks of rows for a thread block, each of its own head, and rings that go
// round.
const ProblemSpec kRows = {
    .heads_q = 3, .heads_kv = 3, .seqlen_q = 70, .seqlen_kv = 200, .head_dim = 64};
// Enough for each thread block to have four of them, so that buffers of Q go round.
const ProblemSpec kMany = {
    .heads_q = 10, .heads_kv = 10, .seqlen_q = 66, .seqlen_kv = 32, .head_dim = 64};
const std::string kTiles = R"({"path": "wgmma", "block_q": 128, "block_kv": 32, "num_stages": 2})";
// A ring of three subtiles of Q, of which the fourth block of rows takes each a second time.
const ProblemSpec kWide = {
    .heads_q = 5, .heads_kv = 5, .seqlen_q = 66, .seqlen_kv = 70, .head_dim = 256};
const std::string kWideTiles =
    R"({"path": "wgmma", "block_q": 128, "block_kv": 64, "num_stages": 2})";

TEST_CASE_FIXTURE(OneSmMutations, "caught in wgmma: a wait that is missing") {
  expect_report(
      {kConsumer, "if (waits()) ptx::barrier_wait(shared.k_full(slot), full);", ""},
      {kRows, kTiles},
      {"load_shared_4_if: reads shared memory at +", "which thread 0 wrote with no barrier"});
  expect_report({kConsumer, "if (waits()) ptx::barrier_wait(shared.v_full(slot), full);", ""},
                {kRows, kTiles},
                {"multiply_async: reads shared memory at +", "barrier_wait is missing"});
  expect_report({kConsumer, "ptx::barrier_wait(shared.q_full(subtile_of(query_state(0))), 0);", ""},
                {kRows, kTiles},
                {"load_shared_4_if: reads shared memory at +", "which was never written"});
  expect_report(
      {kConsumer, "ptx::barrier_wait(shared.q_full(subtile_of(now)), now.full());", ""},
      {kRows, kTiles},
      {"load_shared_4_if: reads shared memory at +", "which thread 0 wrote with no barrier"});
  expect_report({kProducer, "ptx::barrier_wait(shared.k_empty(slot), k_state.empty());", ""},
                {kRows, kTiles}, {"arrives at the mbarrier at +", "has all of its 1 arrivals"});
  expect_report(
      {kProducer, "ptx::barrier_wait(shared.v_empty(slot), v_state.empty());", ""}, {kRows, kTiles},
      {"tensor_load: writes shared memory at +", "which the wgmma of warpgroup 1 read with no"});
  expect_report(
      {kProducer, "ptx::barrier_wait(shared.q_empty(Shared::q_subtile(slot, consumer)), empty);",
       ""},
      {kMany, kTiles},
      {"store_matrices: writes shared memory at +", "tensor_load to it is under way"});
  expect_report(
      {kConsumer, "ptx::wgmma_wait<1>();", ""}, {kRows, kTiles},
      {"wgmma_wait: sums in registers of thread", "were changed while wgmma added to them"});
  expect_report(
      {kConsumer,
       "ptx::wgmma_wait<0>();\n    hold(out, probabilities[0]);\n    release_v",
       "hold(out, probabilities[0]);\n    release_v"},
      {kRows, kTiles}, {"tensor_load: writes shared memory at +", "wgmma_wait is missing"});
}

// Each subtile of a ring goes from one consumer to the other.
TEST_CASE_FIXTURE(OneSmMutations, "caught in wgmma: a ring of subtiles of Q without a safeguard") {
  const Run wide = {kWide, kWideTiles};
  const std::vector<std::string> early = {"multiply_async: reads shared memory at +",
                                          "tensor_load to it is under way"};
  expect_report({kConsumer, "ptx::barrier_wait(shared.q_full(subtile_of(now)), now.full());", ""},
                wide, {"load_shared_4_if: reads shared memory at +"});
  expect_report(
      {kProducer, "ptx::barrier_wait(shared.q_empty(Shared::q_subtile(slot, consumer)), empty);",
       ""},
      wide, early);
  expect_report(
      {kConsumer, "ptx::barrier_arrive_if(lane == 0 && last,", "ptx::barrier_arrive_if(false,"},
      wide, {"deadlock", "barrier_wait: the mbarrier at +", "0 of 4 arrivals"});
  expect_report(
      {kConsumer, "ptx::barrier_arrive_if(lane == 0 && last,", "ptx::barrier_arrive_if(lane == 0,"},
      wide, early);
  expect_report(
      {kShared, "kSplitsQ ? rows * kConsumers + consumer : rows", "rows"}, wide,
      {"tensor_load: writes shared memory at +", "while the wgmma of warpgroup 2 reads it"});
}

// After the last step, in whose place nobody else waits.
TEST_CASE_FIXTURE(OneSmMutations,
                  "caught in wgmma: a safeguard of the last products that is missing") {
  expect_report(
      {kConsumer, "ptx::barrier_wait(shared.v_full(tile_state.slot()), tile_state.full());", ""},
      {kRows, kTiles}, {"multiply_async: reads shared memory at +", "barrier_wait is missing"});
  expect_report({kConsumer, "    hold(out, probabilities[0]);\n    issue_p_v(slot);",
                 "    hold(out, probabilities[0]);\n    multiply_p_v(slot);\n    ptx::wgmma_commit();"},
                {kRows, kTiles}, {"begins a group of products: wgmma_fence is missing"});
  expect_report(
      {kConsumer,
       "ptx::wgmma_wait<0>();\n    hold(out, probabilities[0]);\n  }",
       "hold(out, probabilities[0]);\n  }"},
      {kRows, kTiles}, {"ends while the wgmma of warpgroup", "wgmma_wait is missing"});
  expect_report(
      {kConsumer, "if constexpr (kConfig.stages_out()) ptx::tensor_store_wait_read();", ""},
      {kRows, kTiles}, {"ends while thread", "tensor_store_wait_read is missing"});
}

TEST_CASE_FIXTURE(OneSmMutations, "caught in wgmma: an arrival that is missing") {
  expect_report({kConsumer, "ptx::barrier_arrive_if(lane == 0, shared.k_empty(slot));", ""},
                {kRows, kTiles},
                {"deadlock", "barrier_wait: the mbarrier at +", "0 of 8 arrivals"});
  expect_report({kConsumer, "ptx::barrier_arrive_if(lane == 0, shared.v_empty(slot));", ""},
                {kRows, kTiles},
                {"deadlock", "barrier_wait: the mbarrier at +", "0 of 8 arrivals"});
  expect_report({kEpilogue, "stored != kNothingStored && lane == 0,", "false,"}, {kMany, kTiles},
                {"deadlock", "barrier_wait: the mbarrier at +", "0 of 4 arrivals"});
  for (const std::string bytes : {"q_subtile_bytes", "k_bytes", "v_bytes"}) {
    CAPTURE(bytes);
    expect_report({kProducer, "ptx::barrier_arrive_expecting(full, kConfig." + bytes + "());",
                   "ptx::barrier_arrive_if(true, full);"},
                  {kRows, kTiles}, {"reads shared memory at +", "tensor_load"});
  }
  expect_report({kConsumer, "    scheduler_arrive();\n    // During", "    // During"},
                {kRows, kTiles}, {"deadlock", "named barrier 2: 128 of 256 threads arrived"});
  expect_report({kConsumer, "if (warpgroup == kWarpgroups - 1) scheduler_arrive();", ""},
                {kRows, kTiles}, {"deadlock", "named barrier 1: 128 of 256 threads arrived"});
}

TEST_CASE_FIXTURE(OneSmMutations, "caught in wgmma: a fence that is missing") {
  expect_report({kShared, "ptx::barrier_init_fence();", ""}, {kRows, kTiles},
                {"barrier_init_fence and a block_sync must come in between"});
  expect_report({kEntry, "ptx::block_sync();  // barriers and ones are visible to all threads", ""},
                {kRows, kTiles}, {"barrier_init_fence and a block_sync must come in between"});
  expect_report({kShared, "ptx::fence_async_proxy();  // wgmma reads them", ""}, {kRows, kTiles},
                {"multiply_async: ", "fence_async_proxy is missing"});
  expect_report(
      {kConsumer,
       "hold(out, probabilities[0]);\n    ptx::wgmma_fence();\n    mma_abt<kConfig.dtype>(scores",
       "hold(out, probabilities[0]);\n    mma_abt<kConfig.dtype>(scores"},
      {kRows, kTiles}, {"begins a group of products: wgmma_fence is missing"});
  expect_report({kConsumer, "ptx::wgmma_fence();\n    multiply_p_v(slot)", "multiply_p_v(slot)"},
                {kRows, kTiles}, {"begins a group of products: wgmma_fence is missing"});
  expect_report(
      {kEpilogue, "ptx::fence_async_proxy();\n    ptx::warp_sync();", "ptx::warp_sync();"},
      {kRows, kTiles},
      {"tensor_store_if: has the copy engine read shared memory at +",
       "fence_async_proxy is missing"});
  expect_report(
      {kEpilogue, "ptx::warp_sync();  // all lanes have written", ""}, {kRows, kTiles},
      {"tensor_store_if: reads shared memory at +", "with no barrier of the block in between"});
}

TEST_CASE_FIXTURE(OneSmMutations, "caught in wgmma: unread keys that are not zero-filled in time") {
  ProblemSpec padded = {.seqlen_q = 70, .seqlen_kv = 200, .head_dim = 64, .mask = "b11k"};
  padded.mask_kind = tensor::MaskKind::kRandom;
  padded.poison_dropped_keys = true;
  expect_report({kProducer, "ptx::barrier_wait(shared.v_landed(slot), phases >> slot & 1);", ""},
                {padded, kTiles}, {"store_shared_16_if: writes shared memory at +", "tensor_load"});
  expect_report(
      {kProducer, "ptx::fence_async_proxy();\n    ptx::warp_sync();  // all rows are zero",
       "ptx::warp_sync();"},
      {padded, kTiles}, {"multiply_async: ", "fence_async_proxy is missing"});
  expect_report({kProducer, "ptx::warp_sync();  // all rows are zero", ""}, {padded, kTiles},
                {"multiply_async: reads shared memory at +", "with no barrier"});
  expect_report(
      {kProducer, "ptx::barrier_arrive_if(ptx::lane_index() == 0, shared.v_full(slot));", ""},
      {padded, kTiles}, {"deadlock", "barrier_wait: the mbarrier at +", "0 of 1 arrivals"});
  expect_report({"attnjit/tile/unread_keys.cuh", "ptx::store_shared_16_if(unread,",
                 "ptx::store_shared_16_if(false,"},
                {padded, kTiles}, {"4480 not finite"});
}

// Without its exact step, which ordinary scores never need.
TEST_CASE_FIXTURE(OneSmMutations, "caught in wgmma: a softmax that trusts its reference") {
  ProblemSpec peaky = {.seqlen_q = 70, .seqlen_kv = 200, .head_dim = 64, .bias = "11qk"};
  const Mutation trusting = {"attnjit/forward/softmax.cuh", "if (ptx::warp_all(in_range))",
                             "if (true)"};
  for (const tensor::BiasKind kind :
       {tensor::BiasKind::kHugeLogit, tensor::BiasKind::kVeryNegative}) {
    peaky.bias_kind = kind;
    expect_report(trusting, {peaky, kTiles}, {"70 rows fail"});
  }
}

// Sums of 2^55 beside a sink that leaves 2^-102 of them: either alone is a normal number.
TEST_CASE_FIXTURE(OneSmMutations, "caught in wgmma: rows without a single factor") {
  ProblemSpec spec = kRows;
  spec.score = "s + 38";
  spec.use_sink = true;
  spec.sink_dtype = DType::kFloat32;
  spec.sinks = {110};
  const std::string rows = "attnjit/forward/rows.cuh";
  expect_report({rows, " && inverse * share >= 0x1p-126f", ""}, {spec, kTiles}, {"rows fail"});
  ProblemSpec dead = kRows;
  dead.seqlen_kv = 30;
  dead.diagonal = Diagonal::kBottomRight;
  dead.window = {-1, 0};
  expect_report({rows, "keys_lse > -ptx::infinity() && ", ""}, {dead, kTiles}, {"not finite"});
}

TEST_CASE_FIXTURE(OneSmMutations, "caught in wgmma: the last tile of a bias read as a whole one") {
  ProblemSpec biased = kRows;
  biased.bias = "bhqk";
  expect_report(
      {"attnjit/score/bias.cuh", "first_key + kShape.block_kv <= block.operand_keys", "true"},
      {biased, kTiles},
      {"load_global_now: reads 16 bytes", "past the end of bias [1, 3, 70, 200]"});
}

TEST_CASE_FIXTURE(OneSmMutations, "caught in wgmma: buffers that are handed on too early") {
  expect_report({kEpilogue, "ptx::tensor_store_wait_read();\n    ptx::barrier_arrive_if(stored",
                 "ptx::barrier_arrive_if(stored"},
                {kMany, kTiles},
                {"tensor_load: writes shared memory at +", "tensor_store_wait_read is missing"});
}

}  // namespace
}  // namespace attnjit::executor_test::wgmma_mutation_test
