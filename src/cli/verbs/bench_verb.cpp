#include <algorithm>
#include <string_view>

#include "base/json.hpp"
#include "cli/report/output_file.hpp"
#include "cli/report/table.hpp"
#include "cli/verbs/verbs.hpp"
#include "cli/work/bench/bench_machine.hpp"
#include "cli/work/bench/bench_run.hpp"
#include "cli/work/bench/peer_times.hpp"
#include "cli/work/bench/profile.hpp"
#include "cli/work/bench/roofline.hpp"
#include "cli/work/spec_values.hpp"
#include "instance/call_args.hpp"
#include "runtime/explain/explainer.hpp"

namespace attnjit::cli {
namespace {

/// Prints each row as it comes and collects all for --json and --output.
class BenchReport {
 public:
  BenchReport(Console& console, const std::vector<Case>& cases, Json header)
      : console_(console), report_(std::move(header)) {
    for (const Case& job : cases) width_ = std::max(width_, job.name.size());
    width_ = std::min(width_, kNameWidth);
    report_["rows"] = Json::array();
    const Json& device = report_["device"];
    console_.print("{}, {}", device["name"].get<std::string>(), device["arch"].get<std::string>());
    console_.print("{:<{}}  {:>9}  {:>7}  {:>7}  {:>7}  {:<22}  {}", "problem", width_, "ms",
                   "spread", "TFLOP/s", "KV TB/s", "tile", "from");
  }

  void add(const Case& job, const Measurement& measured, const std::optional<Roofline>& roofline,
           const std::vector<CounterValue>& counters) {
    console_.progress(0, 0, "");
    console_.print("{:<{}.{}}  {:>9.4f}  {:>6.1f}%  {:>7.1f}  {:>7.2f}  {:<22}  {}", job.name,
                   width_, width_, measured.ms(), 100 * measured.spread(), measured.tflops(),
                   measured.kv_tb_per_s(), measured.tile, measured.config_from);
    Json row = row_json(job, measured);
    if (roofline) {
      console_.print("  {} at {:.0f} MHz ({})", describe(*roofline), roofline->clock_mhz,
                     roofline->sampled ? "sampled" : "the highest: no NVML");
      row["roofline"] = to_json(*roofline);
    }
    for (const CounterValue& each : counters) {
      console_.print("  {:<17}  {:>12} {:<8}  {}", each.counter->name, each.value, each.unit,
                     each.counter->meaning);
    }
    if (!counters.empty()) row["counters"] = to_json(counters);
    console_.out().flush();  // rows take seconds each
    report_["rows"].push_back(std::move(row));
    outcomes_.push_back(ExitCode::kDone);
  }

  void add_failure(const Case& job, const Failure& failure) {
    console_.progress(0, 0, "");
    console_.error(fmt::format("{}: {}", job.name, failure.message));
    Json row = problem_json(job);
    row["error"] = failure.message;
    report_["rows"].push_back(std::move(row));
    outcomes_.push_back(failure.code);
  }

  /// The whole report; nothing is added after it.
  const Json& finish() {
    report_["gpus_after"] = query_gpus();
    return report_;
  }
  ExitCode outcome() const { return combine(outcomes_); }

 private:
  Console& console_;
  Json report_;
  std::size_t width_ = std::string_view("problem").size();
  std::vector<ExitCode> outcomes_;
};

void check_output(const BenchOptions& options, Session& session) {
  if (!session.environment().disable_autotune || options.output.empty()) return;
  usage_error(
      "DISABLE_AUTOTUNE is set, so these would not be the library's results, and none are written; "
      "unset it, or leave --output out");
}

std::vector<Case> choose_cases(const BenchOptions& options, Console& console) {
  std::vector<Case> cases = load_workload(options.workload, console).cases;
  std::erase_if(
      cases, [&](const Case& job) { return job.name.find(options.filter) == std::string::npos; });
  if (cases.empty()) {
    usage_error("--filter: no problem has '{}' in its name; attnjit plan lists the names",
                options.filter);
  }
  return cases;
}

// "forward", "backward" or "forward and backward".
std::string passes(const std::vector<Case>& cases) {
  const auto backward = [](const Case& job) { return job.spec.backward; };
  if (std::ranges::none_of(cases, backward)) return "forward";
  return std::ranges::all_of(cases, backward) ? "backward" : "forward and backward";
}

// The roofline of a row, where it is asked for and the device has rates.
std::optional<Roofline> roofline_of(const BenchOptions& options, const Case& job,
                                    const Measurement& measured, const cuda::DeviceInfo& device,
                                    runtime::Explainer& explainer) {
  if (!options.roofline && options.html.empty()) return std::nullopt;
  const instance::ShapeCall call(job.spec);
  const explain::Values values = values_of(job.spec);
  const explain::Explanation explanation = job.spec.backward
                                               ? explainer.explain(call.backward(), values)
                                               : explainer.explain(call.forward(), values);
  return roofline(measured, explanation, device.clock_khz / 1e3);
}

Json header(const BenchOptions& options, const std::vector<Case>& cases, const Bench& bench,
            Session& session) {
  return {{"schema", 1},
          {"benchmark", passes(cases)},
          {"date", utc_now()},
          {"git", options.git},
          {"library", ATTNJIT_VERSION},
          {"compiler", session.compiler_id()},
          {"path", options.workload.path},
          {"device", device_json(bench.device())},
          {"driver_cuda", session.driver().driver_version()},
          {"rounds", Bench::kRounds},
          {"gpus_before", query_gpus()}};
}

}  // namespace

ExitCode bench(const BenchOptions& options, Session& session) {
  check_output(options, session);
  if (!options.peers.empty() && options.html.empty()) {
    usage_error("--peers: their times are shown on the page of --html; name a file for it");
  }
  const auto path = read_path(options.workload.path);
  const std::vector<Case> cases = choose_cases(options, session.console());
  if (session.environment().disable_autotune) {
    session.console().note("DISABLE_AUTOTUNE is set: times of configuration 0, no results to keep");
  }
  PeerTimes peers;
  for (const std::string& file : options.peers) read_peers(file, peers);
  Bench bench(session, path, options.roofline || !options.html.empty());
  runtime::Explainer explainer(session.engine(), bench.device());
  if (!options.output.empty()) expect_writable("--output", options.output);
  if (!options.html.empty()) expect_writable("--html", options.html);
  Console& console = session.console();
  BenchReport report(console, cases, header(options, cases, bench, session));
  for (std::size_t i = 0; i < cases.size(); ++i) {
    console.progress(i, cases.size(), cases[i].name);
    try {
      const Measurement measured = bench.measure(cases[i]);
      std::vector<CounterValue> counters;
      if (options.profile) {
        counters = profile(measured.manifest_line, options.workload.path, measured.kernel);
      }
      report.add(cases[i], measured,
                 roofline_of(options, cases[i], measured, bench.device(), explainer), counters);
    } catch (const std::exception& error) {
      report.add_failure(cases[i], failure_of(error));
    }
  }
  const Json& whole = report.finish();
  if (!options.output.empty()) write_file(options.output, base::dump_json(whole, 1) + '\n');
  if (!options.html.empty()) write_file(options.html, bench_page(whole, peers));
  console.print_json(whole);
  return report.outcome();
}

}  // namespace attnjit::cli
