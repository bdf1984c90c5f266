// As runtime_grid_test.cpp, for tests/assets/backward_grid.json.
#include "grid_jobs.hpp"
#include "tuner/backward_config_zero.hpp"

using namespace attnjit;

namespace {

problem::BackwardPlanKey plan_key(const nlohmann::json& row) {
  problem::BackwardFamily f;
  f.scores = test::grid_family(row);
  f.deterministic = row.at("deterministic");
  if (row.at("dbias") != "none") {
    f.dbias = f.scores.bias;
    f.dbias_dtype = f.scores.bias_dtype;
    f.dbias_vectorized = f.scores.bias_vectorized;
    f.dbias_reduces_planes = row.at("dbias") == "reduced";
  }
  return {f, 1024, 1024};
}

}  // namespace

TEST_CASE("configuration 0 of backwards compiles without a spill for every pair of choices") {
  const nlohmann::json rows = test::grid_rows("backward_grid.json");
  CHECK(rows.size() >= 30);  // pairs of (bias, mask) alone need as many
  const codegen::TemplateSet templates;
  test::GridJobs jobs;
  for (const auto& row : rows) {
    const problem::BackwardPlanKey key = plan_key(row);
    for (const std::string name : row.at("archs")) {
      const codegen::Arch& arch = codegen::find_arch(name);
      const codegen::BackwardTunables tunables = tuner::config_zero(key, arch);
      const auto rule = codegen::why_unfit(tunables, key.family, arch);
      CHECK_MESSAGE(!rule, name, " ", problem::describe(key.family), ": ", rule.value_or(""));
      const auto spec = launch::make_backward_plan_spec(key.family, tunables, arch, templates);
      for (const launch::StepSpec& step : spec.steps) jobs.add(arch, step);
    }
  }
  for (const test::GridJob& job : jobs.compile()) {
    const std::string wrong = test::complaint(job) + test::spills(job.facts);
    CHECK_MESSAGE(wrong.empty(), job.arch->name, " ", job.step.source.title, ": ",
                  job.facts.registers, " registers,", wrong);
  }
}
