#include "runtime/tune/candidates.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "attnjit/error.hpp"
#include "base/parallel.hpp"
#include "runtime/load/fault_id.hpp"
#include "runtime/load/plan_loader.hpp"

namespace attnjit::runtime {
namespace {

enum class State { kReady, kRejected, kSkipped, kFaulty };

bool slow(const cache::Entry& entry) {
  const auto known = facts(entry);
  return known && (known->spill_store_bytes + known->spill_load_bytes > 0 || known->serialized());
}

// Compiles every kernel of `spec`; afterwards the engine has them in memory.
template <class Spec>
State compile(Engine& engine, const Spec& spec, const codegen::Arch& arch,
              const problem::ProblemText& problem) {
  State state = State::kReady;
  for (const launch::StepSpec& step : spec.steps) {
    if (slow(*engine.kernel(step.source, arch, problem))) state = State::kRejected;
  }
  return state;
}

}  // namespace

template <class Pass>
std::size_t Candidates<Pass>::workspace_bytes(const typename Pass::Problem& problem) const {
  std::size_t most = 0;
  for (const auto& plan : plans) {
    most = std::max(most, launch::workspace_layout(plan->spec(), problem).bytes);
  }
  return most;
}

template <class Pass>
Candidates<Pass> prepare_candidates(Engine& engine, const cuda::Driver& driver,
                                    const typename Pass::Problem& problem,
                                    const decltype(Pass::Key::family)& family,
                                    const codegen::Arch& arch, const tuner::DeviceClass& device,
                                    const std::vector<typename Pass::Tunables>& configs,
                                    const std::function<bool()>& expired) {
  const problem::ProblemText text = problem::problem_text(problem);
  std::vector<State> states(configs.size(), State::kSkipped);
  std::vector<std::optional<typename Pass::Spec>> specs(configs.size());
  base::parallel_for(configs.size(), engine.environment().jobs, [&](std::size_t i) {
    if (i != 0 && expired()) return;
    try {
      specs[i] = engine.plan(family, arch, configs[i]);
      const bool faulty = i != 0 && engine.faults().has(fault_id(engine, *specs[i], arch, device));
      states[i] = faulty ? State::kFaulty : compile(engine, *specs[i], arch, text);
    } catch (const std::exception&) {
      if (i == 0) throw;
    }
  });

  Candidates<Pass> candidates;
  for (std::size_t i = 0; i < configs.size(); ++i) {
    State state = i == 0 ? State::kReady : states[i];
    if (state == State::kReady) {
      try {
        candidates.plans.push_back(
            load_plan<Pass>(engine, driver, *std::move(specs[i]), arch, problem));
      } catch (const Error&) {
        if (i == 0) throw;
        state = State::kRejected;
      }
    }
    candidates.rejected += state == State::kRejected;
    candidates.skipped += state == State::kSkipped;
    candidates.faulty += state == State::kFaulty;
  }
  const launch::StepSpec& step = candidates.plans.front()->spec().steps.front();
  const auto known = facts(*engine.kernel(step.source, arch, text));
  if (known) candidates.nvrtc_version = known->nvrtc_version;
  return candidates;
}

template struct Candidates<launch::ForwardPass>;
template struct Candidates<launch::BackwardPass>;
template Candidates<launch::ForwardPass> prepare_candidates(
    Engine&, const cuda::Driver&, const problem::Problem&, const problem::Family&,
    const codegen::Arch&, const tuner::DeviceClass&, const std::vector<codegen::ForwardTunables>&,
    const std::function<bool()>&);
template Candidates<launch::BackwardPass> prepare_candidates(
    Engine&, const cuda::Driver&, const problem::BackwardProblem&, const problem::BackwardFamily&,
    const codegen::Arch&, const tuner::DeviceClass&, const std::vector<codegen::BackwardTunables>&,
    const std::function<bool()>&);

}  // namespace attnjit::runtime
