#include "runtime/call/plan_maker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "problem/manifest_line.hpp"
#include "runtime/call/config_choice.hpp"
#include "runtime/load/plan_loader.hpp"

namespace attnjit::runtime {
namespace {

// Of a problem that a call meets first. The kernels of a backward take longer to compile.
template <class Pass>
constexpr std::chrono::seconds kBudget{2};
template <>
constexpr std::chrono::seconds kBudget<launch::BackwardPass>{10};

constexpr double kNoticeable = 1.0;  // seconds

bool is_record(ConfigSource source) {
  return source == ConfigSource::kRecord || source == ConfigSource::kNeighbour;
}

}  // namespace

std::unique_ptr<launch::ForwardPlan> PlanMaker::make(const cuda::Driver& driver,
                                                     const problem::Problem& problem,
                                                     const problem::PlanKey& key, Tuning tuning) {
  return make(forward_tuner_, driver, problem, key, tuning);
}
std::unique_ptr<launch::BackwardPlan> PlanMaker::make(const cuda::Driver& driver,
                                                      const problem::BackwardProblem& problem,
                                                      const problem::BackwardPlanKey& key,
                                                      Tuning tuning) {
  return make(backward_tuner_, driver, problem, key, tuning);
}

template <class Pass>
std::unique_ptr<launch::Plan<Pass>> PlanMaker::make(ProblemTuner<Pass>& problem_tuner,
                                                    const cuda::Driver& driver,
                                                    const typename Pass::Problem& problem,
                                                    const typename Pass::Key& plan_key,
                                                    Tuning tuning) {
  const cuda::DeviceInfo device = cuda::current_device(driver);
  const codegen::Arch arch = arch_of(device);
  const auto key = tune_key(device, plan_key);
  const bool tuned = tuning == Tuning::kAllowed && tune(problem_tuner, driver, problem, key);
  auto choice =
      choose_plan<Pass>(engine_, problem, plan_key, arch, key.device, Compiling::kAllowed);
  if (choice.slow) {
    engine_.log().warn_once(
        *choice.slow, fmt::format("[{}] runs without wgmma, as do problems like it: {}; another "
                                  "NVRTC (ATTNJIT_NVRTC) may do better",
                                  problem::describe(problem), *choice.slow));
  }
  engine_.log().info("[{}] runs {}: {}", problem::describe(problem), name(choice.source),
                     choice.why);
  auto plan = load_plan<Pass>(engine_, driver, std::move(choice.spec), arch, problem);
  ++plans_;
  if (!tuned && is_record(choice.source)) ++record_hits_;
  recorder_.note(problem::manifest_line(problem));
  return plan;
}

template <class PlanKey>
tuner::BasicTuneKey<PlanKey> PlanMaker::tune_key(const cuda::DeviceInfo& device,
                                                 const PlanKey& key) const {
  return {device_class(device), key, engine_.space<PlanKey>().name()};
}

template <class PlanKey>
bool PlanMaker::would_tune(const cuda::Driver& driver, const PlanKey& key) {
  return needs_tuning(tune_key(cuda::current_device(driver), key));
}

template <class Pass>
std::size_t PlanMaker::most_workspace_bytes(const cuda::Driver& driver,
                                            const typename Pass::Problem& problem,
                                            const typename Pass::Key& key) {
  const cuda::DeviceInfo device = cuda::current_device(driver);
  const codegen::Arch arch = arch_of(device);
  const auto& space = engine_.space<typename Pass::Key>();
  auto configs = space.candidates(key, arch);
  if (arch.wgmma) {  // which may turn out to be slow
    for (const auto& config : space.candidates(key, codegen::without_wgmma(arch))) {
      if (std::ranges::find(configs, config) == configs.end()) configs.push_back(config);
    }
  }
  // A neighbour's record need not be among the candidates for this key.
  configs.push_back(find_config(engine_, problem, key, arch, device_class(device)).config);
  std::size_t most = 0;
  for (const auto& config : configs) {
    const auto spec = engine_.plan(key.family, arch, config);
    most = std::max(most, launch::workspace_layout(spec, problem).bytes);
  }
  return most;
}

template <class PlanKey>
bool PlanMaker::needs_tuning(const tuner::BasicTuneKey<PlanKey>& key) {
  if (engine_.path()) return false;
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
                     const tuner::BasicTuneKey<typename Pass::Key>& key) {
  if (!needs_tuning(key)) return false;
  const std::scoped_lock lock(tuning_mutex_);
  if (!needs_tuning(key)) return false;  // another thread was first
  const TuneReport<Pass> report = [&] {
    const CompileWatch::Running running(engine_.watch(),
                                        fmt::format("tuning [{}]", problem::describe(problem)));
    return problem_tuner.tune(driver, problem, key.plan, kBudget<Pass>);
  }();
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

template bool PlanMaker::would_tune(const cuda::Driver&, const problem::PlanKey&);
template bool PlanMaker::would_tune(const cuda::Driver&, const problem::BackwardPlanKey&);
template std::size_t PlanMaker::most_workspace_bytes<launch::ForwardPass>(const cuda::Driver&,
                                                                          const problem::Problem&,
                                                                          const problem::PlanKey&);
template std::size_t PlanMaker::most_workspace_bytes<launch::BackwardPass>(
    const cuda::Driver&, const problem::BackwardProblem&, const problem::BackwardPlanKey&);

}  // namespace attnjit::runtime
