#include <algorithm>
#include <filesystem>
#include <sstream>

#include "base/json.hpp"
#include "cli/input/words.hpp"
#include "cli/report/head_table.hpp"
#include "cli/report/json_number.hpp"
#include "cli/verbs/verbs.hpp"
#include "cli/work/cpu_run.hpp"
#include "cli/work/replay/replayed_call.hpp"
#include "cli/work/replay/shrink.hpp"
#include "dump/folder.hpp"

namespace attnjit::cli {
namespace {

std::unique_ptr<CallRunner> choose_call_runner(const std::string& on, Session& session) {
  if (on == "cpu") return make_cpu_call_runner(session);
  if (on == "gpu") return make_device_call_runner(session);
  if (on != "auto") usage_error("--on: '{}'; expected one of auto, gpu, cpu", on);
  try {
    return make_device_call_runner(session);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNoDevice || !kHasExecutor) throw;
  }
  return make_cpu_call_runner(session);
}

std::vector<std::filesystem::path> files_of(const std::string& dump) {
  if (!std::filesystem::is_directory(dump)) return {dump};
  auto files = dump::list_calls(dump);
  if (files.empty()) usage_error("{}: it holds no calls; expected files NAME.call", dump);
  return files;
}

KernelChoice choice_of(const ReplayOptions& options) {
  KernelChoice choice;
  choice.config = read_config(options.config);
  if (!options.path.empty()) choice.path = options.path;
  choice.arch = options.arch;
  return choice;
}

// "out 0.31, lse 0.02": errors over their allowance.
std::string ratios(const check::CallVerdict& verdict) {
  return listing(verdict.outputs, [](const auto& output) {
    return fmt::format("{} {:.2f}", output.name, output.report.worst_ratio);
  });
}

// The rows of a head that were judged, and how many rows a tile has, of an output.
struct RowsOfOutput {
  std::int64_t judged = 0;
  int tile = 1;
};
RowsOfOutput rows_of(const dump::Call& call, const std::string& output, const CallRun& run) {
  const ForwardArgs& args = call.forward_args();
  const bool by_keys = output == "dk" || output == "dv";
  return {by_keys ? args.k.shape[2] : args.q.shape[2],
          std::max(by_keys ? run.block_kv : run.block_q, 1)};
}

/// Prints each call as it comes and collects all for --json.
class ReplayReport {
 public:
  ReplayReport(Console& console, std::string device)
      : console_(console), device_(std::move(device)) {
    console_.print("device  {}", device_);
  }

  void add(const dump::CallFile& file, const ReplayedCall& replayed) {
    const bool pass = replayed.pass();
    const std::string name = file.path().filename().string();
    console_.print("{}  {}  [{}]", pass ? "PASS" : "FAIL", name, file.origin().problem);
    if (!replayed.run.violation.empty()) {
      print_indented(replayed.run.violation);
    } else {
      print_verdict("replayed", replayed.verdict, file.call(), replayed.run);
    }
    if (!replayed.returned) console_.print("      recorded: the call never returned");
    if (replayed.recorded) print_verdict("recorded", *replayed.recorded, file.call(), replayed.run);
    print_differences(replayed);
    results_.push_back(json_of(name, file, replayed));
    outcomes_.push_back(pass ? ExitCode::kDone : ExitCode::kVerification);
  }

  void add_shrunk(const SmallestCall& smallest) {
    console_.print("      smallest that fails, of {} tried: [{}]", smallest.tried,
                   smallest.problem);
    console_.print("      {}", smallest.manifest_line);
    if (!smallest.file.empty()) console_.print("      written to {}", smallest.file.string());
    results_.back()["smallest"] = {{"problem", smallest.problem},
                                   {"manifest_line", smallest.manifest_line},
                                   {"tried", smallest.tried}};
  }

  void add_failure(const std::filesystem::path& path, const Failure& failure) {
    const std::string name = path.filename().string();
    console_.print("ERROR {}", name);
    console_.error(fmt::format("{}: {}", name, failure.message));
    results_.push_back({{"name", name}, {"pass", false}, {"error", failure.message}});
    outcomes_.push_back(failure.code);
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

  void print_verdict(const char* which, const check::CallVerdict& verdict, const dump::Call& call,
                     const CallRun& run) {
    console_.print("      {}: error over allowance {}", which, ratios(verdict));
    print_indented(verdict.text);
    for (const auto& [output, report] : verdict.outputs) {
      if (report.wrong.empty()) continue;
      const RowsOfOutput rows = rows_of(call, output, run);
      print_indented(head_table(output, report, rows.judged, rows.tile));
    }
  }

  void print_differences(const ReplayedCall& replayed) {
    if (!replayed.returned || !replayed.run.violation.empty()) return;
    if (replayed.differences.empty()) {
      console_.print("      the outputs have the bits that were recorded");
      return;
    }
    const std::vector<std::string> broken = replayed.broken_repeats();
    for (const check::OutputDifference& difference : replayed.differences) {
      const bool is_broken = std::ranges::count(broken, difference.name) > 0;
      const char* const why = is_broken              ? "the same device must give the same bits"
                              : replayed.must_repeat ? "added up by atomics, in any order"
                                                     : "by other arithmetic";
      console_.print("      {}: {} of {} elements have other bits, by {:.3g} at most ({})",
                     difference.name, difference.differing, difference.elements, difference.largest,
                     why);
    }
  }

  static Json json_of(const std::string& name, const dump::CallFile& file,
                      const ReplayedCall& replayed) {
    Json differing = Json::object();
    for (const auto& difference : replayed.differences) {
      differing[difference.name] = difference.differing;
    }
    const bool judged = replayed.run.violation.empty();
    Json result = {
        {"name", name},
        {"problem", file.origin().problem},
        {"pass", replayed.pass()},
        {"worst_ratio", judged ? finite_number(replayed.verdict.worst_ratio()) : Json(nullptr)},
        {"returned", replayed.returned},
        {"bits_differ", std::move(differing)},
        {"config", replayed.run.config},
        {"text", judged ? replayed.verdict.text : replayed.run.violation}};
    if (replayed.recorded) {
      result["recorded_worst_ratio"] = finite_number(replayed.recorded->worst_ratio());
    }
    return result;
  }

  Console& console_;
  std::string device_;
  Json results_ = Json::array();
  std::vector<ExitCode> outcomes_;
};

}  // namespace

ExitCode replay(const ReplayOptions& options, Session& session) {
  const KernelChoice choice = choice_of(options);
  if (!options.output.empty() && !options.shrink) {
    usage_error("--output: it gets what --shrink finds; expected --shrink beside it");
  }
  const std::vector<std::filesystem::path> files = files_of(options.dump);
  const std::unique_ptr<CallRunner> runner = choose_call_runner(options.on, session);
  const unsigned jobs = session.environment().jobs;
  ReplayReport report(session.console(), runner->device());
  for (const std::filesystem::path& path : files) {
    try {
      const dump::CallFile file = dump::CallFile::open(path);
      const ReplayedCall replayed = replay_call(file, *runner, choice, jobs);
      report.add(file, replayed);
      const bool fails_again = !replayed.run.violation.empty() || !replayed.verdict.pass;
      if (options.shrink && fails_again) {
        report.add_shrunk(find_smallest(file, *runner, choice, options.output, jobs));
      }
    } catch (const std::exception& error) {
      report.add_failure(path, failure_of(error));
    }
  }
  return report.finish();
}

}  // namespace attnjit::cli
