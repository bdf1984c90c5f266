// Blocks of rows that thread blocks of the Hopper forward take from a counter.
#include <doctest/doctest.h>

#include <string>

#include "bench.hpp"
#include "mutations.hpp"

namespace attnjit::executor_test::counted_work_test {
namespace {

const std::string kWgmma =
    R"({"path": "wgmma", "block_q": 64, "block_kv": 32, "num_stages": 2, "pack_gqa": false})";
const std::string kPlan = "attnjit/forward/wgmma/plan.cuh";

// Two SMs with two thread blocks each, and 12 blocks of rows.
class CountedWork : public Mutations {
 public:
  CountedWork() : Mutations(2) {}
};

instance::ProblemSpec lengths() {
  instance::ProblemSpec spec{
      .batch = 2, .heads_q = 2, .heads_kv = 1, .seqlen_q = 150, .seqlen_kv = 100, .head_dim = 32};
  spec.use_seqlens_kv = true;
  spec.causal = true;
  spec.diagonal = Diagonal::kTopLeft;
  return spec;
}

TEST_CASE_FIXTURE(CountedWork,
                  "caught in counted work: a counter that nobody clears or waits for") {
  const Run run{lengths(), kWgmma};
  expect_report({"attnjit/prepass/clear_count.cuh", "ptx::store_global(count, uint32{0});", ""},
                run, {"work taken", "which was never set to zero"});
  expect_report({kPlan, "ptx::wait_for_previous_kernel();  // which clears the counter", ""}, run,
                {"wait_for_previous_kernel is missing"});
}

TEST_CASE_FIXTURE(CountedWork, "caught in counted work: places that are taken from the first on") {
  expect_report(
      {kPlan, "index = kConfig.teams * blocks + ptx::take_count(", "index = 5 + ptx::take_count("},
      {lengths(), kWgmma}, {"rows fail"});
}

}  // namespace
}  // namespace attnjit::executor_test::counted_work_test
