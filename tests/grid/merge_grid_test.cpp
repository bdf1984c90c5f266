// The kernels that merge partial results, for the oldest and the newest architectures.
#include "grid_jobs.hpp"
#include "launch/merge_plan.hpp"

using namespace attnjit;

TEST_CASE("merges of partial results compile without a spill") {
  constexpr DType kAll[] = {DType::kFloat16, DType::kBFloat16, DType::kFloat32};
  constexpr int kWidths[] = {40, 128, 264, 512, 4104};
  test::GridJobs jobs;
  int turn = 0;
  for (const DType part : kAll) {
    for (const DType dtype : kAll) {
      // The others by turns: every pair with a dtype is there.
      for (const bool carry : {false, true}) {
        const problem::MergeKey key{part, dtype, kWidths[turn % 5], turn % 2 == 0, carry};
        const codegen::Arch& arch = codegen::find_arch(turn % 4 < 2 ? "sm_80" : "sm_90a");
        jobs.add(arch, launch::make_merge_plan_spec(key, {}).steps.front());
        ++turn;
      }
    }
  }
  test::expect_sound(jobs);
}
