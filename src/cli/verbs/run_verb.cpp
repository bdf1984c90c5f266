#include <algorithm>
#include <sstream>

#include "cli/input/words.hpp"
#include "cli/report/json_number.hpp"
#include "cli/report/table.hpp"
#include "cli/verbs/verbs.hpp"
#include "cli/work/bench/bench_run.hpp"
#include "cli/work/cpu_run.hpp"
#include "cli/work/device_run.hpp"

namespace attnjit::cli {
namespace {

// On a GPU, a problem runs as a call there would run it, or on the path that was asked for.
std::unique_ptr<Runner> make_gpu_runner(const WorkloadOptions& options, Session& session) {
  auto runner = make_device_runner(session, read_path(options.path));
  if (!options.config.empty() || !options.archs.empty()) {
    usage_error(
        "--arch and --config choose the kernels of --on cpu; a GPU runs those that attnjit plan "
        "shows, so leave them out or add --on cpu");
  }
  return runner;
}

std::unique_ptr<Runner> choose_runner(const RunOptions& options, Session& session) {
  if (options.on == "cpu" && options.time) {
    usage_error("--time: the seconds of --on cpu say nothing of a GPU; expected --on gpu");
  }
  if (options.on == "cpu") return make_cpu_runner(options.workload, session);
  if (options.on != "auto" && options.on != "gpu") {
    usage_error("--on: '{}'; expected one of auto, gpu, cpu", options.on);
  }
  if (options.on == "gpu" || options.time) return make_gpu_runner(options.workload, session);
  try {
    return make_gpu_runner(options.workload, session);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNoDevice || !kHasExecutor) throw;
  }
  auto runner = make_cpu_runner(options.workload, session);
  session.console().note(
      "there is no GPU that can be used (attnjit doctor says why): running on "
      "the {}",
      runner->device());
  return runner;
}

double worst_ratio(const RunResult& run) {
  double worst = 0;
  for (const auto& [name, report] : run.outputs) worst = std::max(worst, report.worst_ratio);
  return worst;
}

// "out 1.2e-03, lse 3.1e-06".
std::string errors_text(const RunResult& run) {
  const auto text = [](const RunResult::Output& output) {
    return fmt::format("{} {:.2e}", output.name, output.report.max_abs_error);
  };
  return listing(run.outputs, text);
}

/// How much of a problem was judged.
struct Share {
  const char* of;
  std::int64_t judged, all;
};

Share share_of(const instance::ProblemSpec& spec, const Sample& sample) {
  if (!spec.backward) return {"rows", sample.rows.count(spec.seqlen_q), spec.seqlen_q};
  const std::int64_t all = spec.tensor_batch() * spec.heads_kv;
  return {"planes", sample.planes.all ? all : std::ssize(sample.planes.list), all};
}

/// Prints each result as it comes and collects all for --json.
class RunReport {
 public:
  RunReport(Console& console, const std::vector<Case>& cases, std::string device)
      : console_(console), device_(std::move(device)) {
    for (const Case& job : cases) width_ = std::max(width_, job.name.size());
    width_ = std::min(width_, kNameWidth);
    console_.print("device  {}", device_);
  }

  /// `timed`: null unless the problem was timed.
  void add(const Case& job, const Sample& sample, const RunResult& run, const Measurement* timed) {
    const bool pass = run.findings.pass;
    const Share share = share_of(job.spec, sample);
    std::string line =
        fmt::format("{}  {:<{}.{}}", pass ? "PASS" : "FAIL", job.name, width_, width_);
    if (run.judged) {
      line += fmt::format("  max error {}  worst ratio {:.2f}  {} {}/{}", errors_text(run),
                          worst_ratio(run), share.of, share.judged, share.all);
    }
    if (run.rough_ms) line += fmt::format("  about {:.3f} ms", *run.rough_ms);
    if (run.seconds) line += fmt::format("  {:.1f} s", *run.seconds);
    console_.print("{}", line);
    print_indented(run.findings.text);
    Json errors = Json::object();
    for (const auto& [name, report] : run.outputs)
      errors[std::string(name)] = finite_number(report.max_abs_error);
    Json result = {{"name", job.name},
                   {"problem", instance::describe(job.spec)},
                   {"pass", pass},
                   {"max_errors", std::move(errors)},
                   {"worst_ratio", run.judged ? finite_number(worst_ratio(run)) : Json(nullptr)},
                   {share.of, run.judged ? share.judged : 0},
                   {"text", run.findings.text}};
    if (run.rough_ms) result["rough_ms"] = *run.rough_ms;
    if (run.seconds) result["seconds"] = *run.seconds;
    if (timed != nullptr) {
      timed_ = true;
      result["us"] = 1000 * timed->ms();
      result["path"] = timed->path;
      times_.add({job.name, fmt::format("{:.2f}", worst_ratio(run)),
                  fmt::format("{:.1f}", 1000 * timed->ms()), timed->path});
    }
    results_.push_back(std::move(result));
    outcomes_.push_back(pass ? ExitCode::kDone : ExitCode::kVerification);
  }

  void add_failure(const Case& job, const Failure& failure) {
    console_.print("ERROR {:<{}.{}}", job.name, width_, width_);
    console_.error(fmt::format("{}: {}", job.name, failure.message));
    results_.push_back({{"name", job.name}, {"pass", false}, {"error", failure.message}});
    outcomes_.push_back(failure.code);
  }

  ExitCode finish() {
    if (timed_) console_.print("{}", times_.text());
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
  Table times_{{{"problem"}, {"error / allowed", true}, {"us", true}, {"path"}}};
  bool timed_ = false;  // whether `times_` has a row
  std::vector<ExitCode> outcomes_;
};

}  // namespace

ExitCode run(const RunOptions& options, Session& session) {
  const Workload workload = load_workload(options.workload, session.console());
  std::vector<Sample> samples;
  for (const Case& job : workload.cases) samples.push_back(choose_sample(job.spec, options.rows));

  const std::unique_ptr<Runner> runner = choose_runner(options, session);
  std::optional<Bench> bench;
  if (options.time) bench.emplace(session, read_path(options.workload.path));
  RunReport report(session.console(), workload.cases, runner->device());
  for (std::size_t i = 0; i < workload.cases.size(); ++i) {
    try {
      const RunResult result = runner->run(workload.cases[i], samples[i]);
      std::optional<Measurement> timed;
      if (bench) timed = bench->measure(workload.cases[i]);
      report.add(workload.cases[i], samples[i], result, timed ? &*timed : nullptr);
    } catch (const std::exception& error) {
      report.add_failure(workload.cases[i], failure_of(error));
    }
  }
  if (session.console().verbosity() == Verbosity::kVerbose) {
    session.console().note("{}", runner->counters());
  }
  return report.finish();
}

}  // namespace attnjit::cli
