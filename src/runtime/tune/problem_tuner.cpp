#include "runtime/tune/problem_tuner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <utility>
#include <vector>

#include "attnjit/error.hpp"
#include "runtime/load/plan_loader.hpp"
#include "runtime/load/wgmma_verdict.hpp"
#include "runtime/tune/candidates.hpp"
#include "runtime/tune/trial.hpp"

namespace attnjit::runtime {
namespace {

using Clock = std::chrono::steady_clock;

// Half of the time is for measuring what the other half compiled.
constexpr int kCompileShare = 2;

/// The time that a tuning may take; without a budget it never ends.
class Deadline {
 public:
  explicit Deadline(std::optional<std::chrono::milliseconds> budget) : budget_(budget) {}

  bool passed(int share = 1) const { return budget_ && Clock::now() - begin_ > *budget_ / share; }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

 private:
  const Clock::time_point begin_ = Clock::now();
  const std::optional<std::chrono::milliseconds> budget_;
};

// Runs kernels of `plan` by `run`, under the eyes of `watch`.
template <class Pass, class Run>
auto watched(const TuneWatch<typename Pass::Tunables>& watch, const Trial<Pass>& trial,
             const launch::Plan<Pass>& plan, const Run& run) {
  watch.begins(plan.spec().tunables);
  try {
    return run();
  } catch (const Error& error) {
    if (!trial.context_lost()) throw;
    watch.context_lost(error.what());
    throw Error(ErrorKind::kCuda,
                fmt::format("{} made the CUDA context unusable while it was tuned: {}; restart the "
                            "process; attnjit tune finds such configurations in a process of its "
                            "own, and with ATTNJIT_AUTOTUNE=cached calls tune nothing",
                            codegen::describe_tile(plan.spec().tunables), error.what()));
  }
}

// Whether a candidate runs and computes what configuration 0 does.
template <class Pass>
bool right(Trial<Pass>& trial, const launch::Plan<Pass>& plan,
           const TuneWatch<typename Pass::Tunables>& watch, base::Log& log) {
  const typename Pass::Spec& spec = plan.spec();
  try {
    if (watched<Pass>(watch, trial, plan, [&] { return trial.agrees(plan); })) return true;
    log.warning(
        "tuning: {} computes something else than configuration 0 for [{}] and is not used; please "
        "report it",
        codegen::describe_tile(spec.tunables), problem::describe(spec.family));
  } catch (const Error& error) {
    if (trial.context_lost()) throw;
    log.info("tuning: {} does not run: {}", codegen::describe_tile(spec.tunables), error.what());
  }
  return false;
}

template <class Pass>
void drop_wrong(Trial<Pass>& trial, Candidates<Pass>& candidates,
                const TuneWatch<typename Pass::Tunables>& watch, base::Log& log) {
  std::vector<std::unique_ptr<launch::Plan<Pass>>> kept;
  trial.set_expected(*candidates.plans.front());
  for (auto& plan : candidates.plans) {
    if (kept.empty() || right(trial, *plan, watch, log)) {
      kept.push_back(std::move(plan));
    } else {
      ++candidates.rejected;
    }
  }
  candidates.plans = std::move(kept);
}

// A backward reads what the forward wrote.
void run_forward(Trial<launch::ForwardPass>&, Engine&, const cuda::Driver&, const problem::Problem&,
                 const codegen::Arch&) {}
void run_forward(Trial<launch::BackwardPass>& trial, Engine& engine, const cuda::Driver& driver,
                 const problem::BackwardProblem& problem, const codegen::Arch& arch) {
  const problem::Problem& forward = problem.forward;
  trial.run_forward(
      *load_plan<launch::ForwardPass>(engine, driver, engine.plan(forward, arch), arch, forward));
}

template <class Pass>
tuner::BasicRecord<typename Pass::Key> make_record(
    const TuneReport<Pass>& report, const typename Pass::Tunables& winner,
    const Candidates<Pass>& candidates, const typename Pass::Problem& problem,
    const tuner::BasicTuneKey<typename Pass::Key>& key, const cuda::Driver& driver) {
  const tuner::ContestResult& result = report.result;
  tuner::BasicRecord<typename Pass::Key> record;
  record.key = key;
  record.exact = problem::describe(problem);
  record.config = winner;
  record.verdict = name(result.verdict);
  record.us = result.us;
  record.mad = std::max(result.mad, tuner::kTimerStepUs);
  record.default_us = result.default_us;
  record.rounds = result.rounds;
  record.partial = result.partial || report.skipped > 0;
  record.library = ATTNJIT_VERSION;
  record.nvrtc = candidates.nvrtc_version;
  record.driver = driver.driver_version();
  record.time = std::time(nullptr);
  return record;
}

}  // namespace

template <class Pass>
TuneReport<Pass> ProblemTuner<Pass>::tune(const cuda::Driver& driver,
                                          const typename Pass::Problem& problem,
                                          const typename Pass::Key& plan_key,
                                          std::optional<std::chrono::milliseconds> budget) {
  if (engine_.environment().disable_autotune) {
    throw Error(ErrorKind::kInternal, "asked to time kernels while DISABLE_AUTOTUNE is set");
  }
  const cuda::RelaxedCapture relaxed(driver);  // another thread may be capturing
  const Deadline deadline(budget);
  ++tunes_;
  const cuda::DeviceInfo device = cuda::current_device(driver);
  const codegen::Arch arch = arch_of(device);
  const auto& space = engine_.space<typename Pass::Key>();
  const tuner::BasicTuneKey<typename Pass::Key> key{device_class(device), plan_key, space.name()};
  const auto superseded = engine_.records().find_exact(key);
  auto configs = space.candidates(key.plan, arch);
  const auto prepare = [&] {
    return prepare_candidates<Pass>(engine_, driver, problem, plan_key.family, arch, key.device,
                                    configs, [&] { return deadline.passed(kCompileShare); });
  };
  Candidates<Pass> candidates = prepare();
  if (why_slow(engine_, candidates.plans.front()->spec(), arch, problem::problem_text(problem),
               Compiling::kAllowed)) {
    configs = space.candidates(key.plan, codegen::without_wgmma(arch));
    candidates = prepare();
  }
  TuneReport<Pass> report;
  report.candidates = configs.size();
  report.result.verdict = tuner::Verdict::kBudget;

  std::optional<Trial<Pass>> trial;
  if (candidates.plans.size() == 1 && candidates.skipped > 0) {
    report.note = "no candidate was compiled in time";
  } else {
    watch_.begins(configs.front());
    try {
      trial.emplace(driver, problem, candidates.workspace_bytes(problem),
                    engine_.environment().jobs, timing_launches_);
      run_forward(*trial, engine_, driver, problem, arch);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kCuda) throw;
      report.note = error.what();
      trial.reset();
      engine_.log().info("tuning [{}]: {}; configuration 0 it is", problem::describe(problem),
                         error.what());
    }
  }
  if (trial) {
    drop_wrong(*trial, candidates, watch_, engine_.log());
    const auto measure = [&](std::size_t i) {
      const launch::Plan<Pass>& plan = *candidates.plans[i];
      return watched<Pass>(watch_, *trial, plan, [&] { return trial->measure_us(plan); });
    };
    report.result =
        tuner::hold_contest(candidates.plans.size(), measure, [&] { return deadline.passed(); });
  }
  report.rejected = candidates.rejected;
  report.skipped = candidates.skipped;
  report.faulty = candidates.faulty;
  for (const auto& plan : candidates.plans) report.entrants.push_back(plan->spec().tunables);
  const typename Pass::Tunables& winner = candidates.plans[report.result.winner]->spec().tunables;
  report.record = make_record(report, winner, candidates, problem, key, driver);
  if (report.result.conclusive()) {
    report.why_not_kept = engine_.records().publish(report.record, superseded);
  } else {
    engine_.records().remember(report.record);
  }
  report.seconds = deadline.seconds();
  return report;
}

template class ProblemTuner<launch::ForwardPass>;
template class ProblemTuner<launch::BackwardPass>;

}  // namespace attnjit::runtime
