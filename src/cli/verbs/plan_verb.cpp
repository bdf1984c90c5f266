#include <algorithm>

#include "base/json.hpp"
#include "cli/report/table.hpp"
#include "cli/verbs/verbs.hpp"
#include "cli/work/planning.hpp"

namespace attnjit::cli {
namespace {

/// Prints plans as they are made and collects them for --json.
class PlanReport {
 public:
  explicit PlanReport(Session& session) : session_(session) {}

  void add(const Planned& planned) {
    Console& console = session_.console();
    if (!outcomes_.empty()) console.print("");
    console.print("{}", planned.name);
    if (!planned.source.empty()) console.print("  source     {}", planned.source);
    console.print("  problem    {}", planned.problem);
    console.print("  arch       {}", planned.arch->name);
    console.print("  config     {}: {}", planned.config_from, planned.why);
    for (const std::string& line : planned.expressions) console.print("  {}", line);
    console.print("  workspace  {}", human_bytes(static_cast<double>(planned.workspace_bytes)));
    Json steps = Json::array();
    for (std::size_t i = 0; i < planned.steps.size(); ++i) {
      steps.push_back(add_step(planned.steps[i], i + 1, *planned.arch));
    }
    plans_.push_back({{"name", planned.name},
                      {"source", planned.source},
                      {"problem", planned.problem},
                      {"arch", planned.arch->name},
                      {"config", planned.config},
                      {"config_from", planned.config_from},
                      {"why", planned.why},
                      {"workspace_bytes", planned.workspace_bytes},
                      {"expressions", planned.expressions},
                      {"steps", std::move(steps)}});
    outcomes_.push_back(ExitCode::kDone);
  }

  void add_failure(const Case& job, const codegen::Arch& arch, const Failure& failure) {
    session_.console().error(fmt::format("{} on {}: {}", job.name, arch.name, failure.message));
    plans_.push_back({{"name", job.name}, {"arch", arch.name}, {"error", failure.message}});
    outcomes_.push_back(failure.code);
  }

  ExitCode finish() {
    session_.console().print_json({{"plans", plans_}});
    return combine(outcomes_);
  }

 private:
  Json add_step(const PlannedStep& step, std::size_t number, const codegen::Arch& arch) {
    const auto& [spec, tile, grid, key] = step;
    const std::string launched = step.runs()
                                     ? fmt::format("grid {} x {} x {}", grid[0], grid[1], grid[2])
                                     : "skipped: nothing to do for this problem";
    const bool cached = is_cached(key, arch);
    Console& console = session_.console();
    console.print("  step {}     {}", number, spec.source.title);
    console.print("    tile     {}, {} threads, {} of shared memory, {}", tile, spec.threads,
                  human_bytes(spec.shared_bytes), launched);
    console.print("    key      {} ({})", key.text(), cached ? "compiled" : "not compiled yet");
    return {{"step", number},  {"entry", spec.source.entry}, {"title", spec.source.title},
            {"tile", tile},    {"threads", spec.threads},    {"shared_bytes", spec.shared_bytes},
            {"grid", grid},    {"runs", step.runs()},        {"key", key.text()},
            {"cached", cached}};
  }

  bool is_cached(const cache::KernelKey& key, const codegen::Arch& arch) {
    return session_.engine().cache().look_up(key, std::string(arch.name)).has_value();
  }

  Session& session_;
  Json plans_ = Json::array();
  std::vector<ExitCode> outcomes_;
};

}  // namespace

ExitCode plan(const WorkloadOptions& options, Session& session) {
  const Workload workload = load_workload(options, session.console());
  const auto archs = choose_archs(workload, session);
  Planner planner(session.engine(), read_config(options.config), session.device_classes(),
                  read_path(options.path));
  PlanReport report(session);
  for (const Case& job : workload.cases) {
    for (const codegen::Arch* arch : archs) {
      try {
        report.add(planner.plan(job, *arch));
      } catch (const std::exception& error) {
        report.add_failure(job, *arch, failure_of(error));
      }
    }
  }
  return report.finish();
}

}  // namespace attnjit::cli
