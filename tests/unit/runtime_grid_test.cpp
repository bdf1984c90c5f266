// Configuration 0 of every family in tests/assets/forward_grid.json, which scripts/covering-grid
// writes so that every pair of choices occurs: it compiles, spills nothing and fits.
#include "grid_jobs.hpp"
#include "tuner/config_zero.hpp"

using namespace attnjit;

TEST_CASE("configuration 0 compiles without a spill for every pair of choices") {
  const nlohmann::json rows = test::grid_rows("forward_grid.json");
  CHECK(rows.size() >= 112);  // pairs of (dims, bias) alone need as many
  const codegen::TemplateSet templates;
  test::GridJobs jobs;
  for (const auto& row : rows) {
    const problem::PlanKey key{test::grid_family(row), row.at("bucket_q"), 1024};
    for (const std::string name : row.at("archs")) {
      const codegen::Arch& arch = codegen::find_arch(name);
      const kernel::ForwardConfig config = tuner::config_zero(key, arch);
      const auto rule = codegen::why_invalid(config, arch);
      CHECK_MESSAGE(!rule, name, " ", problem::describe(key.family), ": ", rule.value_or(""));
      const auto spec = launch::make_forward_plan_spec(key.family, config, arch, templates);
      for (const launch::StepSpec& step : spec.steps) jobs.add(arch, step);
    }
  }
  for (const test::GridJob& job : jobs.compile()) {
    const std::string wrong = test::complaint(job) + test::spills(job.facts);
    CHECK_MESSAGE(wrong.empty(), job.arch->name, " ", job.step.source.title, ": ",
                  job.facts.registers, " registers,", wrong);
  }
}
