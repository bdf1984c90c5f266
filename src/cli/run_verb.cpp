#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/device_run.hpp"
#include "cli/verbs.hpp"
#include "cuda/device.hpp"

namespace attnjit::cli {
namespace {

constexpr std::size_t kNameWidth = 56;

void check_place(const std::string& on) {
  if (on == "auto" || on == "gpu") return;
  if (on == "cpu") {
    throw Error(ErrorKind::kUnsupported,
                "--on cpu: the CPU executor is not part of this version; use --on gpu");
  }
  usage_error("--on: '{}'; expected one of auto, gpu, cpu", on);
}

// JSON has no infinity.
Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

/// Prints each result as it comes and collects all for --json.
class RunReport {
 public:
  RunReport(Console& console, const std::vector<Case>& cases, std::string device)
      : console_(console), device_(std::move(device)) {
    for (const Case& job : cases) width_ = std::max(width_, job.name.size());
    width_ = std::min(width_, kNameWidth);
    console_.print("device  {}", device_);
  }

  void add(const Case& job, const DeviceRun& run) {
    const check::Verdict& verdict = run.verdict;
    const double worst = std::max(verdict.out.worst_ratio, verdict.lse.worst_ratio);
    const char* const word = verdict.pass ? "PASS" : "FAIL";
    console_.print(
        "{}  {:<{}.{}}  max error {:.2e}  worst ratio {:.2f}  rows {}/{}  about {:.3f} ms", word,
        job.name, width_, width_, verdict.out.max_abs_error, worst, run.rows, job.spec.seqlen_q,
        run.milliseconds);
    print_indented(verdict.text);
    results_.push_back({{"name", job.name},
                        {"problem", reference::describe(job.spec)},
                        {"pass", verdict.pass},
                        {"max_error", finite(verdict.out.max_abs_error)},
                        {"worst_ratio", finite(worst)},
                        {"rows", run.rows},
                        {"rough_ms", run.milliseconds},
                        {"text", verdict.text}});
    outcomes_.push_back(verdict.pass ? ExitCode::kDone : ExitCode::kVerification);
  }

  void add_failure(const Case& job, const Error& error) {
    console_.print("ERROR {:<{}.{}}", job.name, width_, width_);
    console_.error(fmt::format("{}: {}", job.name, error.what()));
    results_.push_back({{"name", job.name}, {"pass", false}, {"error", error.what()}});
    outcomes_.push_back(exit_code(error.kind()));
  }

  ExitCode finish() {
    const auto passed = std::ranges::count(outcomes_, ExitCode::kDone);
    console_.print("{} of {} passed", passed, outcomes_.size());
    console_.print_json({{"device", device_}, {"results", results_}});
    return combine(outcomes_);
  }

 private:
  void print_indented(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) console_.print("      {}", line);
  }

  Console& console_;
  std::string device_;
  std::size_t width_ = 0;
  Json results_ = Json::array();
  std::vector<ExitCode> outcomes_;
};

}  // namespace

ExitCode run(const RunOptions& options, Session& session) {
  check_place(options.on);
  const Workload workload = load_workload(options.workload);
  std::vector<reference::Rows> rows;
  for (const Case& job : workload.cases) rows.push_back(choose_rows(job.spec, options.rows));

  const cuda::Driver& driver = session.driver();
  const cuda::PrimaryContext current(driver);
  const cuda::DeviceInfo device = cuda::current_device(driver);
  ContextOptions context_options;
  context_options.log = [&](std::string_view message) {
    session.console().note("attnjit: {}", message);
  };
  Context context(context_options);
  RunReport report(session.console(), workload.cases,
                   fmt::format("{} ({})", device.name, device.arch()));
  for (std::size_t i = 0; i < workload.cases.size(); ++i) {
    try {
      report.add(workload.cases[i], run_on_device(workload.cases[i], rows[i], driver, context,
                                                  session.environment().jobs));
    } catch (const Error& error) {
      report.add_failure(workload.cases[i], error);
    }
  }
  const Counters counters = context.counters();
  if (session.console().verbosity() == Verbosity::kVerbose) {
    session.console().note("{} plans, {} kernels compiled, {} read from the cache", counters.plans,
                           counters.compiles, counters.disk_hits);
  }
  return report.finish();
}

}  // namespace attnjit::cli
