// The Hopper backward without one of its safeguards at a time: each must lead to the report that
// names it.
#include <doctest/doctest.h>

#include <string>

#include "mutations.hpp"
#include "wgmma_backward.hpp"

namespace attnjit::executor_test::wgmma_backward_mutation_test {
namespace {

using instance::ProblemSpec;

const std::string kProducer = "attnjit/backward/dkv_wgmma/producer.cuh";
const std::string kWalk = "attnjit/backward/walk.cuh";
const std::string kResidentKeys = "attnjit/backward/resident_keys.cuh";
const std::string kClearRows = "attnjit/tile/clear_rows.cuh";
const std::string kKeys = "attnjit/backward/dkv_wgmma/keys.cuh";
const std::string kDq = "attnjit/backward/dkv_wgmma/dq.cuh";
const std::string kSubtiles = "attnjit/backward/dkv_wgmma/dq_subtiles.cuh";
const std::string kSum = "attnjit/backward/fragment_sum.cuh";
const std::string kShared = "attnjit/backward/dkv_wgmma/shared.cuh";
const std::string kEntry = "attnjit/backward/dkv_wgmma/kernel.cuh";

// Rings go round, and keys end within a tile.
const ProblemSpec kSpec = {.seqlen_q = 400, .seqlen_kv = 100, .head_dim = 64, .backward = true};
const Run kRun = {kSpec, wgmma_backward(64)};

// The same with dead rows and unread keys inside of the tensors.
const Run kZeroFill = [] {
  ProblemSpec spec = kSpec;
  spec.use_seqlens_q = spec.use_seqlens_kv = true;
  spec.seqlens_q = {390};
  spec.seqlens_kv = {90};
  spec.poison_dropped_keys = true;
  return Run{spec, wgmma_backward(64)};
}();

TEST_CASE_FIXTURE(Mutations, "caught in wgmma backward: a wait that is missing") {
  expect_report({kProducer, "ptx::barrier_wait(shared.empty(stage), state.empty());", ""}, kRun,
                {"arrives at the mbarrier at +"});
  expect_report(
      {kKeys, "ptx::barrier_wait(shared.full(stage), stage_state.full());\n    const uint64",
       "const uint64"},
      kRun, {"multiply_async: reads shared memory at +", "which a tensor_load"});
  expect_report(
      {kKeys, "      ptx::barrier_wait(shared.k_full(number), Shared::phase(number));\n", ""}, kRun,
      {"multiply_async: reads shared memory at +", "barrier_wait is missing"});
  expect_report({kKeys, "if (!begun) ptx::barrier_wait(shared.v_full(), v_phase);", ""}, kRun,
                {"multiply_async: reads shared memory at +", "barrier_wait is missing"});
  expect_report({kShared, "ptx::barrier_wait(work_full(number), phase(number));", ""}, kRun,
                {"load_shared_4_if: reads shared memory at +"});
  expect_report(
      {kKeys,
       "      ptx::barrier_wait(shared.ds_empty(slot, ring()), slot_state.empty());\n    }\n    "
       "this->store",
       "    }\n    this->store"},
      kRun, {"store_matrices_transposed: writes shared memory at +"});
  expect_report({kKeys, "    ptx::wgmma_wait<0>();\n    hold(scores);", "    hold(scores);"}, kRun,
                {"wgmma"});
  expect_report({kKeys, "    ptx::wgmma_wait<1>();\n    hold(dp);", "    hold(dp);"}, kRun,
                {"dq:", "not finite"});
  expect_report({kKeys, "    ptx::wgmma_wait<0>();\n    hold(p, dv", "    hold(p, dv"}, kRun,
                {"tensor_load: writes shared memory at +", "which the wgmma of warpgroup"});
  expect_report({kDq, "ptx::named_barrier_sync(Shared::ds_full(slot), Shared::kDsThreads);", ""},
                kRun, {"load_shared_4_if: reads shared memory at +", "which thread 0 wrote"});
  expect_report({kDq, "ptx::wgmma_wait<0>();", ""}, kRun,
                {"adds to sums that thread", "wgmma_wait is missing"});
  expect_report(
      {kSubtiles, "ptx::tensor_store_wait_read<kBuffers - 1>();", ""}, kRun,
      {"store_shared_16: writes shared memory at +", "tensor_store_wait_read is missing"});
  expect_report({kDq, "ptx::tensor_store_wait_read();  // stores still read", "//"}, kRun,
                {"tensor_store_wait_read is missing"});
}

TEST_CASE_FIXTURE(Mutations,
                  "caught in wgmma backward: a wait for rows that are to be zero-filled") {
  expect_report({kProducer, "ptx::barrier_wait(shared.landed(stage), phases >> stage & 1);", ""},
                kZeroFill, {"store_shared_16: writes shared memory at +", "which a tensor_load"});
  expect_report({kResidentKeys, "ptx::barrier_wait(landed, phase);", ""}, kZeroFill,
                {"tensor_load: writes shared memory at +"});
}

TEST_CASE_FIXTURE(Mutations, "caught in wgmma backward: an arrival that is missing") {
  expect_report(
      {kKeys, "ptx::barrier_arrive_if(lane == 0, shared.empty(stage));\n    ++index;", "++index;"},
      kRun, {"deadlock", "0 of 8 arrivals"});
  expect_report({kDq, "ptx::barrier_arrive_if(lane == 0, shared.ds_empty(slot));", ""}, kRun,
                {"deadlock", "0 of 4 arrivals"});
  expect_report({kKeys, "if (begun || warpgroup == 1) scheduler_arrive();", ""}, kRun,
                {"deadlock", "128 of 256 threads arrived"});
  expect_report({kKeys, "if (any && warpgroup == 0) scheduler_arrive();", ""}, kRun,
                {"deadlock", "128 of 256 threads arrived"});
  for (const std::string first : {"full, kConfig.q_bytes()", "full, bytes", "shared.v_full(), "}) {
    expect_report(
        {kProducer, "ptx::barrier_arrive_expecting(" + first, "static_cast<void>(" + first}, kRun,
        {"deadlock", "0 of 1 arrivals"});
  }
  expect_report({kShared, "ptx::barrier_arrive(work_full(number));", ""}, kRun,
                {"deadlock", "0 of 1 arrivals"});
  expect_report({kClearRows, "ptx::barrier_arrive_if(ptx::lane_index() == 0, full);", ""},
                kZeroFill, {"deadlock", "0 of 1 arrivals"});
  expect_report(
      {kKeys,
       "ptx::named_barrier_arrive(Shared::ds_full(slot_state.slot(), ring()), Shared::kDsThreads);",
       ""},
      kRun, {"deadlock", "128 of 384 threads arrived"});
  expect_report({kSubtiles, "ptx::tensor_store_commit();", ""}, kRun,
                {"tensor_store_commit is missing"});
}

TEST_CASE_FIXTURE(Mutations, "caught in wgmma backward: a fence that is missing") {
  expect_report({kShared, "ptx::barrier_init_fence();", ""}, kRun,
                {"barrier_init_fence and a block_sync must come in between"});
  expect_report({kEntry, "ptx::block_sync();  // barriers are visible to all threads", ""}, kRun,
                {"barrier_init_fence and a block_sync must come in between"});
  expect_report({kKeys, "    ptx::fence_async_proxy();\n    ptx::named_barrier_arrive(",
                 "    ptx::named_barrier_arrive("},
                kRun, {"fence_async_proxy is missing"});
  expect_report({kSubtiles, "    ptx::fence_async_proxy();\n", ""}, kRun,
                {"bulk_add_if: has the copy engine read", "fence_async_proxy is missing"});
  expect_report({kSubtiles, "ptx::warp_sync();  // the subtile is complete", ""}, kRun,
                {"bulk_add_if: reads shared memory at +"});
  expect_report({kSubtiles, "ptx::warp_sync();  // lane 0 has waited", ""}, kRun,
                {"store_shared_16: writes shared memory at +"});
  expect_report({kClearRows, "  ptx::fence_async_proxy();\n", ""}, kZeroFill,
                {"fence_async_proxy is missing"});
  expect_report({kClearRows, "ptx::warp_sync();  // all rows are zero", ""}, kZeroFill,
                {"multiply_async: reads shared memory at +"});
}

// The first keys store dq, and some queries have none.
TEST_CASE_FIXTURE(Mutations, "caught in wgmma backward: dq that nobody stores") {
  ProblemSpec spec = kSpec;
  spec.seqlen_kv = 300;
  spec.use_seqlens_q = true;
  spec.seqlens_q = {130};
  const Run run = {spec, store_backward(64)};
  expect_report(
      {kDq, "kConfig.orders_dq() ? walk.order_of(job.tile) == 0", "kConfig.orders_dq() ? false"},
      run, {"adds to byte", "of sums of dq", "which was never set to zero"});
  expect_report(
      {kDq, "kConfig.orders_dq() ? walk.order_of(job.tile) == 0", "kConfig.orders_dq() ? true"},
      run, {"of sums of dq", "which this kernel has written already"});
  expect_report({kSum, "if constexpr (!kConfig.stored) return ~0u;", "return ~0u;"}, run,
                {"fragment_sum", "of sums of dq", "which was never written"});
}

// Each tile's turn is taken once it has come, and passed once its sums are complete.
TEST_CASE_FIXTURE(Mutations, "caught in wgmma backward: a turn that is not taken or passed") {
  ProblemSpec spec = kSpec;
  spec.seqlen_kv = 300;
  spec.deterministic = true;
  const Run run = {spec, wgmma_backward(64)};
  const std::string semaphore = "attnjit/backward/dkv_wgmma/dq_semaphore.cuh";
  expect_report(
      {semaphore, "ptx::barrier_arrive_if(lane == 0, shared.dq_acquired(taken.slot()));", ""}, run,
      {"deadlock", "0 of 1 arrivals"});
  expect_report({kDq, "ptx::barrier_arrive_if(lane == 0, shared.dq_complete(incomplete - 1));", ""},
                run, {"deadlock", "0 of 4 arrivals"});
  expect_report(
      {semaphore, "ptx::barrier_wait(shared.dq_complete(passed.slot()), passed.full());", ""}, run,
      {"deadlock", "0 of 1 arrivals"});
  expect_report({semaphore, "ptx::count_if(count != nullptr && lane < kCounts, count);", ""}, run,
                {"deadlock; thread blocks wait for counts that no block increments"});
  const std::vector<std::string> early = {"adds to byte", "of sums of dq",
                                          "which was never set to zero"};
  expect_report({semaphore, "ptx::await_count(own, wanted);", ""}, run, early);
  expect_report({kDq, "ptx::barrier_wait(shared.dq_acquired(slot), state.full());", ""}, run,
                early);
}

// Sums of three planes, of which the kernel before sets those of one to zero.
TEST_CASE_FIXTURE(OneSmMutations, "caught in wgmma backward: sums that do not become zeros") {
  ProblemSpec spec = kSpec;
  spec.heads_q = spec.heads_kv = 3;
  const Run run = {spec, wgmma_backward(64)};
  const std::string zeros = "attnjit/backward/dkv_wgmma/zeros_ahead.cuh";
  expect_report({zeros, "line < first + share", "line < first"}, run,
                {"adds to byte", "of sums of dq", "which was never set to zero"});
}

TEST_CASE_FIXTURE(Mutations, "caught in wgmma backward: a kernel that does not wait for another") {
  const std::string missing = "wait_for_previous_kernel is missing";
  expect_report({kEntry, "ptx::wait_for_previous_kernel();", ""}, kRun, {"attn_bwd_dkv", missing});
  expect_report({kSum, "ptx::wait_for_previous_kernel();", ""}, kRun, {"fragment_sum", missing});
}

TEST_CASE_FIXTURE(Mutations, "caught in wgmma backward: products without a fence") {
  expect_fence(kKeys, "mma_abt<kDType>(scores", kRun);
  expect_fence(kKeys, "mma_abt<kDType>(dp", kRun);
  expect_fence(kKeys, "mma_ab<kDType>(dv", kRun);
  expect_fence(kKeys, "mma_ab<kDType>(dk", kRun);
  expect_report({kDq, "ptx::wgmma_fence();", ""}, kRun, {"wgmma_fence is missing"});
}

TEST_CASE_FIXTURE(Mutations, "caught in wgmma backward: rows that are not zero-filled") {
  expect_report({kProducer, "const bool zero_fills = walk.zero_fills_keys(walk.keys_of_head());",
                 "const bool zero_fills = false;"},
                kZeroFill, {"deadlock"});
  expect_report({kProducer, "return !live.has(row);", "return false;"}, kZeroFill, {"not finite"});
  expect_report({kWalk, "const bool inside = key >= keys.begin && key < keys.end;",
                 "const bool inside = true;"},
                kZeroFill, {"not finite"});
}

TEST_CASE(
    "wgmma backward: tiles without dead rows and unread keys do not wait for their zero-fill") {
  const std::string zero_fill =
      "if (warp == 1) DkvWgmmaZeroFill<kConfig, Set>(params, Set(features...)).run();";
  Bench without(changed_templates(kEntry, zero_fill, ""));
  const codegen::Arch& arch = codegen::find_arch("sm_90a");
  for (const int block_q : {64, 128}) {
    CHECK(without.backward(kSpec, arch, wgmma_backward(block_q)) == "");
  }
  CHECK(without.backward(kZeroFill.spec, arch, kZeroFill.config).find("deadlock") !=
        std::string::npos);
}

// More tiles of keys than thread blocks, so that the first of these takes several.
TEST_CASE_FIXTURE(Mutations,
                  "slow: caught in wgmma backward: places that are not left or awaited") {
  ProblemSpec spec = kSpec;
  spec.heads_q = spec.heads_kv = 140;
  spec.seqlen_q = 150;
  const Run run = {spec, wgmma_backward(64)};
  expect_report({kProducer, "shared.await_left(number, 2);", ""}, run,
                {"store_shared_4: writes shared memory at +"});
  Run one_buffer = run;  // of K
  one_buffer.spec.head_dim = 128;
  one_buffer.spec.seqlen_kv = 112;
  one_buffer.spec.bias = "b1qk";
  expect_report({kProducer, "shared.await_left(number, 1);", ""}, one_buffer,
                {"tensor_load: writes shared memory at +"});
  expect_report(
      {kProducer, "if (number != 0) ptx::barrier_wait(shared.v_empty(), number - 1 & 1);", ""}, run,
      {"tensor_load: writes shared memory at +"});
  expect_report(
      {kKeys, "ptx::barrier_arrive_if(lane == 0 && !next.exists(), shared.v_empty());", ""}, run,
      {"deadlock", "0 of 8 arrivals"});
  expect_report({kKeys, "shared.leave_work(number);", ""}, run, {"deadlock", "7 of 15 arrivals"});
  expect_report({kDq, "shared.leave_work(number);", ""}, run, {"deadlock", "11 of 15 arrivals"});
}

TEST_CASE_FIXTURE(Mutations, "caught in wgmma backward: a subtile of dq that is added elsewhere") {
  expect_report({kSubtiles, "64 * (subtile / kSlabs) + 16 * warp;",
                 "64 * (subtile / kSlabs) + 16 * (warp ^ 1);"},
                kRun, {"dq:"});
}

// dbias that keeps all axes, where the diagonal leaves tiles without a score.
TEST_CASE_FIXTURE(Mutations, "slow: caught in wgmma backward: a tile of dbias that stays behind") {
  ProblemSpec spec = kSpec;
  spec.seqlen_q = spec.seqlen_kv = 264;
  spec.bias = "bhqk";
  spec.want_dbias = spec.causal = true;
  spec.diagonal = Diagonal::kTopLeft;
  const Run run = {spec, wgmma_backward(64)};
  expect_report({kEntry, "if (warp == 2)", "if (warp == 2 && params.base.batch < 0)"}, run,
                {"dbias:"});
  expect_report({kDq, "if constexpr (BiasGrad::kStores) store_scores(job, slot);", ""}, run,
                {"dbias:"});
  expect_report(
      {kDq, "if constexpr (BiasGrad::kStores) ptx::tensor_store_wait_read<kSubtiles - 1>();", ""},
      run, {"store_matrices_transposed: writes shared memory at +"});
  expect_report({kDq, "job.head, walk.block.batch);\n    ptx::tensor_store_commit();",
                 "job.head, walk.block.batch);"},
                run, {"tensor_store_commit is missing"});
  Run adds = run;
  adds.spec.bias = "1hqk";
  adds.spec.batch = 2;
  adds.config = with_dbias(run.config, "per_plane");
  expect_report({"attnjit/backward/bias_sum.cuh", "stored + plane * per_plane) != 0",
                 "stored + plane * per_plane) < 2"},
                adds, {"bias_sum, block", "load_global_written: reads"});
  expect_report({kDq, "if (lane == 0 && warp == 0) {", "if (lane == 0 && warp == 4) {"}, adds,
                {"dbias:"});
  adds.config = with_dbias(run.config, "add");
  expect_report({kDq, "      add_scores(job, slot);\n      release(slot);\n",
                 "      release(slot);\n      add_scores(job, slot);\n"},
                adds, {"store_matrices_transposed: writes shared memory at +"});
  expect_report({kDq, "      add_scores(job, slot);\n", ""}, adds, {"dbias:"});
}

// Weights wait in the place of dS.
TEST_CASE_FIXTURE(Mutations, "slow: caught in wgmma backward: the slopes of a softcap") {
  ProblemSpec spec = kSpec;
  spec.softcap = 0.5f;
  const Run run = {spec, wgmma_backward(64)};
  expect_report(
      {kKeys,
       "    ptx::barrier_wait(shared.ds_empty(slot, ring()), slot_state.empty());\n    this->store",
       "    this->store"},
      run, {"store_matrices_transposed: writes shared memory at +"});
  expect_report({kKeys, "ptx::warp_sync();  // the warp's weights are written", ""}, run,
                {"load_matrices_transposed: reads shared memory at +"});
  expect_report({kKeys, "ptx::warp_sync();  // dS may overwrite them", ""}, run,
                {"store_matrices_transposed: writes shared memory at +"});
  expect_report({"attnjit/backward/dkv_wgmma/key_scores.cuh", "weights.of(p[n], n, e, late_zero)",
                 "element_of<kDType>(p[n], e)"},
                run, {"dq:"});
}

}  // namespace
}  // namespace attnjit::executor_test::wgmma_backward_mutation_test
