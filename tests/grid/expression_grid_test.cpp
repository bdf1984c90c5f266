// The kernels of expressions compile, and wgmma is not serialised: those of tests/golden/formulas
// on the path of Hopper, and on the portable one.
#include "golden/golden_formulas.hpp"
#include "grid_jobs.hpp"

using namespace attnjit;

namespace {

// Bytes that a kernel may spill: a formula's rows and keys stand beside the products, and the
// portable backward has 64 columns in tiles of 64 by 128.
constexpr int kMostSpilled = 40, kMostSpilledByMma = 324;

problem::Family family_of(const test::GoldenFormula& formula, int head_dim) {
  problem::Family family{.head_dim = head_dim, .head_dim_v = head_dim, .aligned = true};
  (formula.kind == expr::Kind::kKeep ? family.keep : family.score) = test::interned(formula);
  return family;
}

void add_kernels(test::GridJobs& jobs, const problem::Family& family, const codegen::Arch& arch) {
  const problem::PlanKey key{.family = family, .bucket_q = 4096, .bucket_kv = 4096};
  const auto forward =
      launch::make_forward_plan_spec(family, tuner::config_zero(key, arch), arch, {});
  for (const auto& step : forward.steps) jobs.add(arch, step);
  problem::BackwardPlanKey gradients{
      .family = {.scores = family}, .bucket_q = 4096, .bucket_kv = 4096};
  if (family.score) {
    gradients.family.gradient_operands = {expr::float_operands(family.score->expression), false};
  }
  const auto backward = launch::make_backward_plan_spec(
      gradients.family, tuner::config_zero(gradients, arch), arch, {});
  for (const auto& step : backward.steps) jobs.add(arch, step);
}

// Those of every `step`-th formula.
void expect_compiled(const char* arch_name, int head_dim, std::size_t first, std::size_t step) {
  const codegen::Arch& arch = codegen::find_arch(arch_name);
  test::GridJobs jobs;
  const std::vector<test::GoldenFormula> formulas = test::golden_formulas();
  for (std::size_t n = first; n < formulas.size(); n += step) {
    add_kernels(jobs, family_of(formulas[n], head_dim), arch);
  }
  for (const test::GridJob& job : jobs.compile()) {
    const std::string wrong = test::complaint(job);
    CHECK_MESSAGE(wrong.empty(), job.step.source.title, ":", wrong);
    const int most = job.step.wgmma ? kMostSpilled : kMostSpilledByMma;
    CHECK_MESSAGE(job.facts.spill_store_bytes <= most, job.step.source.title, " spills ",
                  job.facts.spill_store_bytes, " bytes");
  }
}

}  // namespace

TEST_CASE("kernels of expressions compile: a sample") {
  expect_compiled("sm_90a", 128, 4, 3);
  expect_compiled("sm_80", 64, 1, 9);
}
TEST_CASE("slow: kernels of expressions compile") {
  for (const char* arch : {"sm_80", "sm_90a"}) {
    for (const int head_dim : {64, 128}) expect_compiled(arch, head_dim, 0, 1);
  }
}
