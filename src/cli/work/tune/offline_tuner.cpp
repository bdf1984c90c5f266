#include "cli/work/tune/offline_tuner.hpp"

#include <algorithm>
#include <ctime>
#include <utility>

#include "attnjit/error.hpp"
#include "base/fields_json.hpp"
#include "problem/manifest_line.hpp"
#include "runtime/load/fault_id.hpp"
#include "runtime/load/plan_loader.hpp"
#include "runtime/load/stale_record.hpp"

namespace attnjit::cli {
namespace {

TunedProblem failed(std::string message, ExitCode code) {
  return {.state = "failed", .text = std::move(message), .code = code};
}

TunedProblem failed(Failure failure) { return failed(std::move(failure.message), failure.code); }

template <class PlanKey>
TunedProblem tuned(TuneAnswer answer, const tuner::BasicTuneKey<PlanKey>& key) {
  if (!answer.record) return failed(answer.note, ExitCode::kFailure);
  const auto* record = std::get_if<tuner::BasicRecord<PlanKey>>(&*answer.record);
  if (record == nullptr || record->key != key) {
    return failed("the worker tuned another problem or device", ExitCode::kFailure);
  }
  return {.state = record->verdict,
          .record = *record,
          .why_not_kept = std::move(answer.why_not_kept),
          .times = std::move(answer.times),
          .rejected = answer.rejected,
          .known_faulty = answer.faulty};
}

}  // namespace

OfflineTuner::OfflineTuner(runtime::Engine& engine, TuneWorker& worker,
                           const cuda::DeviceInfo& device, const Remeasure& remeasure)
    : engine_(engine),
      worker_(worker),
      device_(runtime::device_class(device)),
      arch_(runtime::arch_of(device)),
      remeasure_(remeasure) {}

TunedProblem OfflineTuner::tune(const Case& job) {
  TunedProblem result;
  try {
    result = job.spec.backward ? tune<launch::BackwardPass>(job, make_backward_problem(job.spec))
                               : tune<launch::ForwardPass>(job, make_problem(job.spec));
  } catch (const std::exception& error) {
    result = failed(failure_of(error));
  }
  result.name = job.name;
  return result;
}

template <class Pass>
TunedProblem OfflineTuner::tune(const Case& job, const typename Pass::Problem& problem) {
  using PlanKey = typename Pass::Key;
  const PlanKey plan = problem::plan_key(problem);
  const auto [place, first] = std::get<Names<PlanKey>>(seen_).emplace(plan, job.name);
  if (!first) return {.state = "same", .text = place->second};
  const auto known = engine_.records().find_exact(
      tuner::BasicTuneKey<PlanKey>{device_, plan, engine_.space<PlanKey>().name()});
  if (known && suffices<Pass>(*known, problem)) return {.state = "recorded", .record = *known};
  return measure<Pass>(problem);
}

// Each turn leaves out one configuration more, until the worker gets to an answer.
template <class Pass>
TunedProblem OfflineTuner::measure(const typename Pass::Problem& problem) {
  using PlanKey = typename Pass::Key;
  TuneRequest request{problem::manifest_line(problem), {}};
  std::vector<tuner::Fault> faults;
  const auto finished = [&](TunedProblem result) {
    result.faults = std::move(faults);
    return result;
  };
  for (;;) {
    TuneWorker::Outcome outcome = worker_.tune(request);
    if (auto* answer = std::get_if<TuneAnswer>(&outcome)) {
      return finished(tuned<PlanKey>(std::move(*answer), {device_, problem::plan_key(problem),
                                                          engine_.space<PlanKey>().name()}));
    }
    if (const auto* failure = std::get_if<TuneFailure>(&outcome)) {
      return finished(failed(failure->message, failure->code));
    }
    const tuner::Fault fault = fault_of<Pass>(problem, std::get<BrokenConfig>(outcome));
    if (std::ranges::find(request.faulty, fault.id) != request.faulty.end()) {
      return finished(
          failed(fmt::format("the worker runs {} again", fault.config), ExitCode::kFailure));
    }
    if (const auto why = engine_.faults().publish(fault)) {
      engine_.log().warning("{} is faulty, and no later run will know: {}", fault.config, *why);
    }
    request.faulty.push_back(fault.id);
    faults.push_back(fault);
  }
}

template <class Pass>
tuner::Fault OfflineTuner::fault_of(const typename Pass::Problem& problem,
                                    const BrokenConfig& broken) {
  const auto config = base::from_json_value<typename Pass::Tunables>(broken.config, "config");
  const auto spec = engine_.plan(problem::plan_key(problem).family, arch_, config);
  return {.id = runtime::fault_id(engine_, spec, arch_, device_),
          .device = device_,
          .pass = Pass::kName,
          .problem = problem::describe(problem),
          .config = codegen::describe_tile(config),
          .why = broken.why,
          .library = ATTNJIT_VERSION,
          .time = std::time(nullptr)};
}

template <class Pass>
bool OfflineTuner::suffices(const tuner::BasicRecord<typename Pass::Key>& record,
                            const typename Pass::Problem& problem) {
  if (remeasure_.all || record.partial) return false;
  return !remeasure_.stale || !runtime::is_stale<Pass>(engine_, record, problem, arch_);
}

}  // namespace attnjit::cli
