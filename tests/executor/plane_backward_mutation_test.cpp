// The Hopper backward that takes whole planes without one of its safeguards at a time: each must
// lead to the report that names it.
#include <doctest/doctest.h>

#include <string>

#include "mutations.hpp"
#include "wgmma_backward.hpp"

namespace attnjit::executor_test::plane_backward_mutation_test {
namespace {

const std::string kKeys = "attnjit/backward/dkv_wgmma/keys.cuh";
const std::string kDq = "attnjit/backward/dkv_wgmma/dq.cuh";
const std::string kSubtiles = "attnjit/backward/dkv_wgmma/dq_subtiles.cuh";
const std::string kPlaneDq = "attnjit/backward/dkv_wgmma/plane_dq.cuh";

// Four tiles of keys, of which a thread block takes one after another.
Run plane(int seqlen_q, int head_dim = 64) {
  return {{.seqlen_q = seqlen_q, .seqlen_kv = 400, .head_dim = head_dim, .backward = true},
          plane_backward(64)};
}

TEST_CASE_FIXTURE(Mutations,
                  "slow: caught in wgmma backward: sums of a plane that are not waited for") {
  const Run run = plane(400);
  expect_report({kKeys, "shared.leave_work(number);", ""}, run, {"deadlock", "6 of 14 arrivals"});
  expect_report({kDq, "shared.leave_work(number);", ""}, run, {"deadlock", "10 of 14 arrivals"});
  expect_report({kPlaneDq, "    settle(job, index);\n", ""}, run, {"dq:"});
  expect_report(
      {kPlaneDq, "if (subtile == 0) ptx::barrier_wait(shared.sums_full(warp), num_resumed++ & 1);",
       ""},
      run, {"load_shared_16: reads shared memory at +"});
  expect_report({kPlaneDq, "    ptx::tensor_store_wait_read();\n", ""}, run, {"bulk_load: "});
  expect_report({kSubtiles, "ptx::bulk_store_if(lane == 0 && stores", "ptx::bulk_store_if(false"},
                run, {"sums of dq", "was never set to zero"});
}

TEST_CASE_FIXTURE(Mutations,
                  "slow: caught in wgmma backward: sums of a plane that are not asked for") {
  expect_report({kPlaneDq, "ptx::barrier_arrive_expecting(shared.sums_full(warp), kBytes);", ""},
                plane(400), {"deadlock", "0 of 1 arrivals"});
  // Both subtiles of a tile come back to the places of the tile before.
  expect_report({kPlaneDq, "ptx::warp_sync();  // all buffers have been read", ""}, plane(400, 128),
                {"bulk_load: writes shared memory at +", "which thread"});
  expect_report({kPlaneDq, "ptx::tensor_store_commit();", ""}, plane(400), {"dq:"});
}

// Tiles of queries come again after one turn, three, seven and ten.
TEST_CASE_FIXTURE(Mutations,
                  "slow: caught in wgmma backward: sums of a plane that are not complete") {
  expect_report({kPlaneDq, "ptx::tensor_store_wait();", ""}, plane(60), {"dq:"});
  expect_report({kPlaneDq, "ptx::tensor_store_wait<kGroupsPerTile>();", ""}, plane(150), {"dq:"});
  expect_report({kPlaneDq, "ptx::tensor_store_wait<3 * kGroupsPerTile>();", ""}, plane(400),
                {"dq:"});
  expect_report({kPlaneDq, "ptx::tensor_store_wait<7 * kGroupsPerTile>();", ""}, plane(600),
                {"dq:"});
}

}  // namespace
}  // namespace attnjit::executor_test::plane_backward_mutation_test
