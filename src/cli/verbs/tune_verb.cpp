#include <iostream>
#include <string>
#include <vector>

#include "cli/report/kept.hpp"
#include "cli/report/output_file.hpp"
#include "cli/report/tune_page.hpp"
#include "cli/report/tune_table.hpp"
#include "cli/verbs/verbs.hpp"
#include "cli/work/bench/bench_machine.hpp"
#include "cli/work/tune/offline_tuner.hpp"
#include "cli/work/tune/tune_service.hpp"
#include "cli/work/tune/tune_shard.hpp"
#include "cuda/device.hpp"
#include "runtime/load/plan_loader.hpp"

namespace attnjit::cli {
namespace {

void check_allowed(const base::Environment& environment) {
  expect_cache(environment, "tune");
  if (environment.disable_autotune) {
    usage_error("tune measures, and DISABLE_AUTOTUNE forbids that; unset it");
  }
}

// Leaves the problems that this machine tunes.
void take_share(const TuneOptions& options, Workload& workload, Console& console) {
  if (!workload.from_manifest) usage_error("--shard shares out a manifest; add --manifest FILE");
  const std::size_t all = workload.cases.size();
  workload.cases = share_of(workload.cases, read_shard(options.shard));
  console.note("shard {}: {} of {} problems", options.shard, workload.cases.size(), all);
}

// This program again, with the flags that its worker has to know. The link is to the program that
// runs, also where another has taken its name.
std::vector<std::string> worker_command(const Session& session) {
  std::vector<std::string> command = {"/proc/self/exe", "tune-worker", "--jobs",
                                      std::to_string(session.environment().jobs)};
  if (session.verbosity() == Verbosity::kQuiet) command.emplace_back("--quiet");
  if (session.verbosity() == Verbosity::kVerbose) command.emplace_back("--verbose");
  return command;
}

// The state of each GPU, a line each.
std::vector<std::string> clocks() { return query_gpus().get<std::vector<std::string>>(); }

void tell(const TunedProblem& problem, std::size_t done, std::size_t total, Console& console) {
  console.progress(0, 0, "");
  for (const tuner::Fault& fault : problem.faults) {
    console.note("attnjit: warning: {}: {} is faulty and is not tried again: {}", problem.name,
                 fault.config, fault.why);
  }
  if (problem.state == "failed") console.error(fmt::format("{}: {}", problem.name, problem.text));
  if (!console.has_progress() && problem.state != "failed") {
    console.note("{}/{} {}: {}", done, total, problem.name, summary(problem));
  }
}

std::vector<TunedProblem> tune_all(const std::vector<Case>& cases, OfflineTuner& tuner,
                                   Console& console) {
  std::vector<TunedProblem> problems;
  for (const Case& job : cases) {
    console.progress(problems.size() + 1, cases.size(), job.name);
    problems.push_back(tuner.tune(job));
    tell(problems.back(), problems.size(), cases.size(), console);
  }
  return problems;
}

// Exits by what is on disk, or where all of it is there by how the problems went.
ExitCode outcome(const std::vector<TunedProblem>& problems, Console& console) {
  Kept kept;
  std::vector<ExitCode> codes;
  for (const TunedProblem& problem : problems) {
    codes.push_back(problem.code);
    if (problem.record) kept.add(problem.why_not_kept);
  }
  kept.report("records are", console);
  return kept.missing() == 0 ? combine(codes) : kept.code();
}

}  // namespace

ExitCode tune(const TuneOptions& options, Session& session) {
  check_allowed(session.environment());
  if (!options.html.empty()) expect_writable("--html", options.html);
  Console& console = session.console();
  Workload workload = load_workload(options.workload, console);
  if (!options.shard.empty()) take_share(options, workload, console);
  // Without a context: what the worker does to the device cannot reach this process.
  const cuda::DeviceInfo device = cuda::devices(session.driver()).front();
  const std::string name = describe(runtime::device_class(device));
  TunePageHead head{name, session.driver().driver_version(), utc_now(), {}, {}};
  if (!options.html.empty()) head.before = clocks();
  TuneWorker worker(worker_command(session));
  OfflineTuner tuner(session.engine(), worker, device, {options.force, options.stale});
  const std::vector<TunedProblem> problems = tune_all(workload.cases, tuner, console);
  console.print("device  {}\n\n{}", name, tune_table(problems));
  console.print_json({{"device", name}, {"results", tune_json(problems)}});
  const ExitCode code = outcome(problems, console);
  if (!options.html.empty()) {
    head.after = clocks();
    write_file(options.html, tune_page(head, problems));
  }
  return code;
}

ExitCode tune_worker(Session& session) {
  serve_tuning(std::cin, std::cout, session.engine(), session.driver());
  return ExitCode::kDone;
}

}  // namespace attnjit::cli
