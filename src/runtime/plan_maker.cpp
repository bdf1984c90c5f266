#include "runtime/plan_maker.hpp"

#include <chrono>

#include "attnjit/error.hpp"
#include "cuda/stream.hpp"
#include "problem/manifest_line.hpp"
#include "runtime/config_choice.hpp"
#include "runtime/plan_loader.hpp"

namespace attnjit::runtime {
namespace {

// Of a problem that a call meets first. The kernels of a backward take longer to compile.
template <class Pass>
constexpr std::chrono::seconds kBudget(2);
template <>
constexpr std::chrono::seconds kBudget<launch::BackwardPass>(10);

constexpr double kNoticeable = 1.0;  // seconds

bool capturing(const cuda::Driver& driver, CUstream stream) {
  try {
    return cuda::is_capturing(driver, stream);
  } catch (const Error&) {
    return true;  // the legacy stream, while a stream that synchronises with it is captured
  }
}

}  // namespace

std::unique_ptr<launch::ForwardPlan> PlanMaker::make(const cuda::Driver& driver,
                                                     const problem::Problem& problem,
                                                     const problem::PlanKey& key,
                                                     std::optional<CUstream> stream) {
  return make(forward_tuner_, driver, problem, key, stream);
}
std::unique_ptr<launch::BackwardPlan> PlanMaker::make(const cuda::Driver& driver,
                                                      const problem::BackwardProblem& problem,
                                                      const problem::BackwardPlanKey& key,
                                                      std::optional<CUstream> stream) {
  return make(backward_tuner_, driver, problem, key, stream);
}

template <class Pass>
std::unique_ptr<launch::Plan<Pass>> PlanMaker::make(ProblemTuner<Pass>& problem_tuner,
                                                    const cuda::Driver& driver,
                                                    const typename Pass::Problem& problem,
                                                    const typename Pass::Key& plan_key,
                                                    std::optional<CUstream> stream) {
  const cuda::DeviceInfo device = cuda::current_device(driver);
  const codegen::Arch arch = arch_of(device);
  const tuner::BasicTuneKey<typename Pass::Key> key{device_class(device), plan_key,
                                                    engine_.space<typename Pass::Key>().name()};
  const bool tuned = tune(problem_tuner, driver, problem, key, stream);
  const auto choice = choose_config(engine_, problem, plan_key, arch, key.device);
  engine_.log().info("[{}] runs {}: {}", problem::describe(problem), name(choice.source),
                     choice.why);
  auto plan = load_plan<Pass>(engine_, driver, engine_.plan(plan_key.family, arch, choice.config),
                              arch, problem);
  ++plans_;
  if (!tuned && choice.source != ConfigSource::kConfigZero) ++record_hits_;
  recorder_.note(problem::manifest_line(problem));
  return plan;
}

template <class PlanKey>
bool PlanMaker::needs_tuning(const tuner::BasicTuneKey<PlanKey>& key) {
  switch (engine_.environment().autotune) {
    case base::AutotuneMode::kOn:
      return !engine_.records().find_exact(key);
    case base::AutotuneMode::kForce:
      return !engine_.records().recall(key);
    case base::AutotuneMode::kCached:
    case base::AutotuneMode::kRequire:
    case base::AutotuneMode::kOff:
      break;
  }
  return false;
}

// Whether the problem was tuned now.
template <class Pass>
bool PlanMaker::tune(ProblemTuner<Pass>& problem_tuner, const cuda::Driver& driver,
                     const typename Pass::Problem& problem,
                     const tuner::BasicTuneKey<typename Pass::Key>& key,
                     std::optional<CUstream> stream) {
  if (!needs_tuning(key) || (stream && capturing(driver, *stream))) return false;
  const std::scoped_lock lock(tuning_mutex_);
  if (!needs_tuning(key)) return false;  // another thread was first
  const TuneReport<Pass> report = problem_tuner.tune(driver, problem, key.plan, kBudget<Pass>);
  if (report.seconds > kNoticeable) {
    engine_.log().warning(
        "tuning [{}] took {:.1f} s ({}); attnjit tune does it beforehand, and "
        "ATTNJIT_AUTOTUNE=cached never does it",
        problem::describe(problem), report.seconds, name(report.result.verdict));
  }
  return true;
}

PlanMaker::Counters PlanMaker::counters() const {
  return {plans_, forward_tuner_.tunes() + backward_tuner_.tunes(),
          forward_tuner_.timing_launches() + backward_tuner_.timing_launches(), record_hits_};
}

}  // namespace attnjit::runtime
