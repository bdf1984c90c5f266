// The Hopper backward of wide heads without one of its safeguards at a time: each must lead to the
// report that names it.
#include <doctest/doctest.h>

#include <string>

#include "mutations.hpp"
#include "wgmma_backward.hpp"

namespace attnjit::executor_test::wide_backward_mutation_test {
namespace {

using instance::ProblemSpec;

const std::string kProducer = "attnjit/backward/dkv_wgmma_d256/producer.cuh";
const std::string kResidentKeys = "attnjit/backward/resident_keys.cuh";
const std::string kProduct = "attnjit/backward/dkv_wgmma_d256/product.cuh";
const std::string kRoles = "attnjit/backward/dkv_wgmma_d256/roles.cuh";
const std::string kShared = "attnjit/backward/dkv_wgmma_d256/shared.cuh";
const std::string kEntry = "attnjit/backward/dkv_wgmma_d256/kernel.cuh";
const std::string kDqProducer = "attnjit/backward/dq_wgmma/producer.cuh";
const std::string kDqConsumer = "attnjit/backward/dq_wgmma/consumer.cuh";
const std::string kDqShared = "attnjit/backward/dq_wgmma/shared.cuh";
const std::string kDqEntry = "attnjit/backward/dq_wgmma/kernel.cuh";
const std::string kClear = "attnjit/tile/clear_rows.cuh";

// Rings go round, and keys end within a tile.
const ProblemSpec kSpec = {.seqlen_q = 400, .seqlen_kv = 300, .head_dim = 136, .backward = true};
const Run kRun = {kSpec, wide_backward()};

// The same with dead rows and unread keys inside of the tensors.
const Run kZeroFill = [] {
  ProblemSpec spec = kSpec;
  spec.use_seqlens_q = spec.use_seqlens_kv = true;
  spec.seqlens_q = {390};
  spec.seqlens_kv = {290};
  spec.poison_dropped_keys = true;
  return Run{spec, wide_backward()};
}();

TEST_CASE_FIXTURE(Mutations, "caught in wide backward: a wait that is missing") {
  expect_report(
      {kProducer, "ptx::barrier_wait(shared.empty(Stream::kQueries, stage), state.empty());", ""},
      kRun, {"arrives at the mbarrier at +"});
  expect_report(
      {kProducer, "ptx::barrier_wait(shared.empty(Stream::kOutputs, stage), state.empty());", ""},
      kRun, {"tensor_load: writes shared memory at +"});
  expect_report({kProduct, "ptx::barrier_wait(shared.full(kFirst, stage), state.full());", ""},
                kRun, {"shared memory at +", "barrier_wait is missing"});
  expect_report({kProduct, "ptx::barrier_wait(shared.keys_full(), 0);", ""}, kRun,
                {"load_shared_4_if: reads shared memory at +"});
  expect_report({kProduct, "    ptx::wgmma_wait<0>();\n    hold(scores);", "    hold(scores);"},
                kRun, {"wgmma"});
  expect_report({kProduct, "    ptx::wgmma_wait<1>();\n", ""}, kRun, {"wgmma"});
  expect_report({kRoles, "ptx::named_barrier_sync(Shared::p_full(stage), Shared::kPThreads);", ""},
                kRun, {"load_shared_16: reads shared memory at +"});
  expect_report({kProduct, "ptx::barrier_wait(shared.full(kSecond, stage), state.full());", ""},
                kRun, {"multiply_async: reads shared memory at +", "barrier_wait is missing"});
  expect_report({kProduct, "ptx::wgmma_wait<0>();\n      hold(gradients, operand);",
                 "hold(gradients, operand);"},
                kRun, {"ends while the wgmma of warpgroup", "wgmma_wait is missing"});
}

TEST_CASE_FIXTURE(Mutations,
                  "caught in wide backward: a wait for rows that are to be zero-filled") {
  expect_report({kProducer, "ptx::barrier_wait(shared.landed(kStream, stage), phase);", ""},
                kZeroFill,
                {"store_shared_16: writes shared memory at +", "barrier_wait is missing"});
  expect_report({kResidentKeys, "ptx::barrier_wait(landed, phase);", ""}, kZeroFill,
                {"store_shared_16: writes shared memory at +", "barrier_wait is missing"});
}

TEST_CASE_FIXTURE(Mutations, "caught in wide backward: an arrival that is missing") {
  expect_report({kProduct,
                 "ptx::barrier_arrive_if(lane == 0 && state.index != 0, shared.empty(kSecond, "
                 "before));",
                 ""},
                kRun, {"deadlock", "of 8 arrivals"});
  expect_report({kProduct, "ptx::barrier_arrive_if(lane == 0, shared.empty(kFirst, stage));", ""},
                kRun, {"deadlock", "of 8 arrivals"});
  expect_report(
      {kRoles, "ptx::named_barrier_arrive(Shared::p_full(stage), Shared::kPThreads);", ""}, kRun,
      {"deadlock", "128 of 256 threads arrived"});
  expect_report({kProducer, "ptx::barrier_arrive_expecting(full, bytes);", ""}, kRun,
                {"deadlock", "0 of 1 arrivals"});
  expect_report({kProducer, "ptx::barrier_arrive(shared.keys_full());", ""}, kRun,
                {"deadlock", "1 of 2 arrivals"});
  expect_report(
      {kProducer, "ptx::barrier_arrive_expecting(full, kConfig", "static_cast<void>(full, kConfig"},
      kRun, {"deadlock", "1 of 2 arrivals"});
  expect_report({kClear, "ptx::barrier_arrive_if(ptx::lane_index() == 0, full);", ""}, kZeroFill,
                {"deadlock", "0 of 1 arrivals"});
}

TEST_CASE_FIXTURE(Mutations, "caught in wide backward: an order that is missing") {
  expect_report({kShared, "ptx::barrier_init_fence();", ""}, kRun,
                {"barrier_init_fence and a block_sync must come in between"});
  expect_report({kEntry, "ptx::block_sync();  // barriers are visible to all threads", ""}, kRun,
                {"barrier_init_fence and a block_sync must come in between"});
  expect_report({kProduct, "ptx::warp_sync();  // all lanes have read what came with the tile", ""},
                kRun, {"bulk_load: writes shared memory at +"});
  expect_report({kClear, "  ptx::fence_async_proxy();\n", ""}, kZeroFill,
                {"fence_async_proxy is missing"});
  expect_report({kClear, "ptx::warp_sync();  // all rows are zero", ""}, kZeroFill,
                {"multiply_async: reads shared memory at +"});
}

TEST_CASE_FIXTURE(Mutations, "caught in wide backward: products without a fence") {
  expect_fence(kProduct, "multiply_resident(first", kRun);
  expect_fence(kProduct, "mma_ab<kDType>(gradients", kRun);
}

TEST_CASE_FIXTURE(Mutations, "caught in wide backward: rows that are not zero-filled") {
  expect_report({kProducer, "const bool zero_fills = walk.zero_fills_keys(walk.keys_of_head());",
                 "const bool zero_fills = false;"},
                kZeroFill, {"deadlock"});
  expect_report({kProducer, "return !live.has(row);", "return false;"}, kZeroFill, {"not finite"});
  expect_report({kResidentKeys, "return !read.has(row);", "return false;"}, kZeroFill,
                {"not finite"});
}

TEST_CASE_FIXTURE(Mutations, "caught in the Hopper kernel of dq: a wait that is missing") {
  expect_report({kDqProducer, "ptx::barrier_wait(shared.k_empty(k_stage), k_state.empty());", ""},
                kRun, {"arrives at the mbarrier at +"});
  // Where V has as many buffers as K, those of K keep it back as well.
  Run widest = kRun;
  widest.spec.head_dim = 256;
  expect_report({kDqProducer, "ptx::barrier_wait(shared.v_empty(v_stage), v_state.empty());", ""},
                widest, {"arrives at the mbarrier at +"});
  expect_report({kDqConsumer, "ptx::barrier_wait(shared.queries_full(), 0);", ""}, kRun,
                {"load_shared_4_if: reads shared memory at +"});
  expect_report({kDqConsumer, "ptx::barrier_wait(shared.k_full(k_stage), k_state().full());", ""},
                kRun, {"multiply_async: reads shared memory at +", "barrier_wait is missing"});
  expect_report({kDqConsumer, "ptx::barrier_wait(shared.v_full(v_stage), v_state().full());", ""},
                kRun, {"multiply_async: reads shared memory at +", "barrier_wait is missing"});
  expect_report({kDqConsumer, "    ptx::wgmma_wait<1>();\n", ""}, kRun, {"wgmma"});
  expect_report({kDqConsumer, "    ptx::wgmma_wait<0>();\n    hold(dp);", "    hold(dp);"}, kRun,
                {"dq:", "not finite"});
  expect_report({kDqConsumer, "ptx::wgmma_wait<0>();\n      hold(dq, ds);", "hold(dq, ds);"}, kRun,
                {"ends while the wgmma of warpgroup", "wgmma_wait is missing"});
  expect_report({kDqProducer, "ptx::barrier_wait(landed, phase);", ""}, kZeroFill,
                {"store_shared_16: writes shared memory at +", "barrier_wait is missing"});
}

TEST_CASE_FIXTURE(Mutations,
                  "caught in the Hopper kernel of dq: an arrival or a fence is missing") {
  expect_report(
      {kDqConsumer, "ptx::barrier_arrive_if(lane == 0 && index != 0, shared.k_empty(before));", ""},
      kRun, {"deadlock", "0 of 8 arrivals"});
  expect_report(
      {kDqConsumer, "ptx::barrier_arrive_if(lane == 0, shared.v_empty(v_state().slot()));", ""},
      kRun, {"deadlock", "0 of 8 arrivals"});
  expect_report(
      {kDqProducer,
       "ptx::barrier_arrive_expecting(full, kConfig.q_bytes() + kConfig.dout_bytes());", ""},
      kRun, {"deadlock", "0 of 1 arrivals"});
  expect_report(
      {kDqProducer, "ptx::barrier_arrive_expecting(full, kConfig.block_kv * kColumns * 2);", ""},
      kRun, {"deadlock", "0 of 1 arrivals"});
  expect_fence(kDqConsumer, "mma_abt<kDType>(scores", kRun);
  expect_fence(kDqConsumer, "mma_abt<kDType>(dp", kRun);
  expect_report({kDqConsumer, "hold(dq, ds);\n    ptx::wgmma_fence();", "hold(dq, ds);"}, kRun,
                {"wgmma_fence is missing"});
  expect_report({kDqShared, "ptx::barrier_init_fence();", ""}, kRun,
                {"barrier_init_fence and a block_sync must come in between"});
  expect_report({kDqEntry, "ptx::block_sync();  // barriers are visible to all threads", ""}, kRun,
                {"barrier_init_fence and a block_sync must come in between"});
}

TEST_CASE_FIXTURE(Mutations, "caught in the Hopper kernel of dq: rows that are not zero-filled") {
  expect_report({kDqProducer, "return unread.has(row);", "return false;"}, kZeroFill,
                {"dq:", "not finite"});
  expect_report({kDqConsumer, "x = live[e / 2] ? x : 0.0f;", ""}, kZeroFill, {"dq:"});
}

}  // namespace
}  // namespace attnjit::executor_test::wide_backward_mutation_test
