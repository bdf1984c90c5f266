// Lists of blocks of rows and keys in the Hopper kernels: a backward whose warpgroups pass tiles
// that drop their keys, and a forward whose thread blocks have two teams.
#include <doctest/doctest.h>

#include <string>

#include "bench.hpp"
#include "mutations.hpp"
#include "wgmma_backward.hpp"

namespace attnjit::executor_test::block_walk_test {
namespace {

using instance::ProblemSpec;

const std::string kKeys = "attnjit/backward/dkv_wgmma/keys.cuh";
const std::string kDq = "attnjit/backward/dkv_wgmma/dq.cuh";
const std::string kWorkTiles = "attnjit/backward/dkv_wgmma/work_tiles.cuh";
const std::string kProducer = "attnjit/forward/wgmma/producer.cuh";
const std::string kPlan = "attnjit/forward/wgmma/plan.cuh";

const std::string kTeams =
    R"({"path": "wgmma", "block_q": 64, "block_kv": 64, "num_stages": 2, "pack_gqa": false})";

ProblemSpec lists(int head_dim, const char* keep, const char* operand, bool backward) {
  ProblemSpec spec{
      .heads_q = 4, .heads_kv = 2, .seqlen_q = 300, .seqlen_kv = 330, .head_dim = head_dim};
  spec.keep = keep;
  spec.operands.push_back(instance::parse_operand(operand));
  spec.backward = backward;
  return spec;
}
ProblemSpec forward_lists(int head_dim = 128) {
  return lists(head_dim, "lists[h, i // 64, j // 64] == 0", "lists=int32:h,5,6:below/3", false);
}
ProblemSpec backward_lists(int head_dim = 64) {
  return lists(head_dim, "lists[g, i // 64, j // 64] == 0", "lists=int32:g,5,6:below/3", true);
}

codegen::Arch arch_of(int sms) {
  codegen::Arch arch = codegen::find_arch("sm_90a");
  arch.sm_count = sms;
  return arch;
}

TEST_CASE("blocks of a keep expression: warpgroups of a backward pass tiles") {
  Bench bench;
  const auto expect_right = [&](const ProblemSpec& spec, int sms, const std::string& config) {
    if (bench.leaves_out()) return;
    CAPTURE(instance::describe(spec));
    CAPTURE(config);
    CHECK(bench.backward(spec, arch_of(sms), config) == "");
  };
  expect_right(backward_lists(128), 2, wgmma_backward(64, 3));
  expect_right(backward_lists(128), 2, wgmma_backward(64, 2));
  expect_right(backward_lists(), 3, wgmma_backward(64, 3, true));
  expect_right(backward_lists(), 3, wgmma_backward(128));
  // Rows that are cut, and keys that a causal mask and lengths drop besides.
  ProblemSpec spec = backward_lists();
  spec.keep = "lists[g, i // 64, j // 64] != 0 && j <= i + off";
  spec.batch = 2;
  spec.use_seqlens_q = spec.use_seqlens_kv = true;
  spec.diagonal = Diagonal::kBottomRight;
  CHECK(bench.backward(spec, arch_of(2), wgmma_backward(64, 3)) == "");
}

TEST_CASE("blocks of a keep expression: two teams of a forward, some without rows") {
  Bench bench;
  for (const int sms : {2, 16}) {
    CAPTURE(sms);
    CHECK(bench.forward(forward_lists(), arch_of(sms), kTeams) == "");
  }
}

class TwoSmMutations : public Mutations {
 public:
  TwoSmMutations() : Mutations(2) {}
};

TEST_CASE_FIXTURE(TwoSmMutations, "caught in block lists: tiles that are passed unsafely") {
  const Run run{backward_lists(), wgmma_backward(64, 3)};
  expect_report(
      {kKeys,
       "ptx::barrier_wait(shared.full(stage), stage_state.full());\n    const BackwardJob "
       "next = Shared::take(shared.job(index));",
       "const BackwardJob next = Shared::take(shared.job(index));"},
      run, {"load_shared_4_if: reads shared memory at +"});
  expect_report({kKeys, "ptx::barrier_arrive_if(lane == 0, shared.empty(stage));\n    return next;",
                 "return next;"},
                run, {"deadlock"});
  expect_report({kKeys, "await_v();\n      ptx::barrier_arrive_if(lane == 0, shared.v_empty());",
                 "await_v();"},
                run, {"deadlock"});
}

TEST_CASE_FIXTURE(TwoSmMutations, "caught in block lists: tiles of dS of each part") {
  const Run run{backward_lists(), wgmma_backward(64, 3)};
  expect_report(
      {kKeys, "ptx::barrier_wait(shared.ds_empty(slot, ring()), slot_state.empty());\n    }", "}"},
      run, {"which the wgmma of warpgroup 3 read with no"});
  expect_report({kDq, "lane == 0 && parts.keeps(part)", "false"}, run, {"deadlock"});
  expect_report({kDq, "if (first) multiply<0", "multiply<0"}, run,
                {"which the wgmma of warpgroup 3 read with no barrier of the block in between"});
}

class ManySmMutations : public Mutations {
 public:
  ManySmMutations() : Mutations(24) {}
};

TEST_CASE_FIXTURE(ManySmMutations, "caught in block lists: shares of queries that are left out") {
  expect_report({kWorkTiles, "work.tile = work.tile % tiles * params_.base.num_splits",
                 "work.tile = work.tile % tiles"},
                {backward_lists(), wgmma_backward(64, 3, true)}, {"fail"});
}

TEST_CASE_FIXTURE(TwoSmMutations, "caught in block lists: teams that wait or take the same rows") {
  const Run run{forward_lists(), kTeams};
  expect_report({kPlan, "team * blocks", "0"}, run, {"which this kernel has written already"});
  ProblemSpec one = forward_lists();
  one.heads_q = one.heads_kv = 1;
  one.seqlen_q = 50;
  expect_report(
      {kProducer, "ptx::barrier_arrive_if(ptx::lane_index() == 0, shared.q_full(0));", ""},
      {one, kTeams}, {"deadlock"});
}

}  // namespace
}  // namespace attnjit::executor_test::block_walk_test
