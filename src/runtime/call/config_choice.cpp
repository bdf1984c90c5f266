#include "runtime/call/config_choice.hpp"

#include <fmt/format.h>

#include <utility>

#include "attnjit/error.hpp"
#include "problem/manifest_line.hpp"
#include "tuner/config_zero.hpp"

namespace attnjit::runtime {
namespace {

using base::AutotuneMode;

template <class PlanKey>
ConfigChoice<tuner::TunablesFor<PlanKey>> config_zero(const PlanKey& key, const codegen::Arch& arch,
                                                      std::string_view reason) {
  return {tuner::config_zero(key, arch), ConfigSource::kConfigZero,
          fmt::format("built in for {} on {}; {}", problem::describe(key), arch.name, reason),
          std::nullopt};
}

template <class PlanKey>
std::string result_text(const tuner::BasicRecord<PlanKey>& record) {
  if (record.verdict != "gain") return "no candidate beats configuration 0";
  return fmt::format("{:.1f} us, {:.1f} % faster than configuration 0", record.us,
                     100 * record.gain());
}

// Whether a configuration that won may win at other sizes too. Whole planes need kv heads that fill
// the GPU evenly and queries that L2 holds, and first keys that store are slow where queries are
// many, so they say nothing of others.
bool serves_other_sizes(const codegen::ForwardTunables&) { return true; }
bool serves_other_sizes(const codegen::BackwardTunables& config) {
  return config.dq_method != codegen::DqMethod::kOwnKvHead &&
         config.dq_method != codegen::DqMethod::kFirstStores;
}

// A neighbour's record without a gain speaks for configuration 0, and that of `key` may be another
// one than the neighbour's.
template <class PlanKey>
ConfigChoice<tuner::TunablesFor<PlanKey>> from_match(const tuner::BasicRecordMatch<PlanKey>& match,
                                                     const PlanKey& key,
                                                     const codegen::Arch& arch) {
  const tuner::BasicRecord<PlanKey>& record = match.record;
  const bool serves =
      match.exact || (record.verdict == "gain" && serves_other_sizes(record.config));
  return {serves ? record.config : tuner::config_zero(key, arch),
          match.exact ? ConfigSource::kRecord : ConfigSource::kNeighbour,
          fmt::format("{}measured on {} with [{}], of {}: {}",
                      serves ? "" : "configuration 0 of these sizes, not the record ",
                      describe(record.key.device), record.exact, problem::describe(record.key.plan),
                      result_text(record)),
          std::nullopt};
}

}  // namespace

std::string_view name(ConfigSource source) {
  switch (source) {
    case ConfigSource::kRecord:
      return "record exact";
    case ConfigSource::kNeighbour:
      return "record neighbour";
    case ConfigSource::kPath:
      return "path";
    case ConfigSource::kConfigZero:
      break;
  }
  return "configuration 0";
}

template <class Problem, class PlanKey>
ConfigChoice<tuner::TunablesFor<PlanKey>> find_config(
    Engine& engine, const Problem& problem, const PlanKey& key, const codegen::Arch& arch,
    const std::optional<tuner::DeviceClass>& device) {
  const base::Environment& environment = engine.environment();
  if (const auto path = engine.path()) {
    return {tuner::config_zero_on(*path, key, arch), ConfigSource::kPath,
            fmt::format("configuration 0 on path {}, which was asked for", base::word(*path)),
            std::nullopt};
  }
  if (environment.disable_autotune) return config_zero(key, arch, "DISABLE_AUTOTUNE is set");
  if (environment.autotune == AutotuneMode::kOff) {
    return config_zero(key, arch, "ATTNJIT_AUTOTUNE=off");
  }
  if (device) {
    const auto match = engine.records().find(
        tuner::BasicTuneKey<PlanKey>{*device, key, engine.space<PlanKey>().name()});
    // A record's configuration is fit for its own problem; this may be its neighbour's.
    if (match && !codegen::why_unfit(match->record.config, key, arch)) {
      return from_match(*match, key, arch);
    }
  }
  if (environment.autotune == AutotuneMode::kRequire) {
    throw Error(ErrorKind::kCache,
                fmt::format("there is no tuning record for {} on {} and ATTNJIT_AUTOTUNE=require; "
                            "add the problem to a manifest and run attnjit tune --manifest on such "
                            "a device: {}",
                            problem::describe(key), device ? describe(*device) : arch.name,
                            problem::manifest_line(problem)));
  }
  return config_zero(key, arch,
                     device ? fmt::format("no tuning record on {}", describe(*device))
                            : "no device here to have tuning records of");
}

template <class PlanKey>
ConfigChoice<tuner::TunablesFor<PlanKey>> fall_back(const PlanKey& key, const codegen::Arch& arch,
                                                    const std::string& slow) {
  auto choice = config_zero(key, codegen::without_wgmma(arch), "path mma: " + slow);
  choice.slow = slow;
  return choice;
}

template <class Pass>
PlanChoice<Pass> choose_plan(Engine& engine, const typename Pass::Problem& problem,
                             const typename Pass::Key& key, const codegen::Arch& arch,
                             const std::optional<tuner::DeviceClass>& device, Compiling compiling) {
  const auto with_plan = [&](ConfigChoice<typename Pass::Tunables> choice) {
    auto spec = engine.plan(key.family, arch, choice.config);
    return PlanChoice<Pass>{std::move(choice), std::move(spec)};
  };
  auto found = with_plan(find_config(engine, problem, key, arch, device));
  if (found.source == ConfigSource::kPath) return found;
  const auto slow = why_slow(engine, found.spec, arch, problem::problem_text(problem), compiling);
  return slow ? with_plan(fall_back(key, arch, *slow)) : std::move(found);
}

template ConfigChoice<codegen::ForwardTunables> find_config(
    Engine&, const problem::Problem&, const problem::PlanKey&, const codegen::Arch&,
    const std::optional<tuner::DeviceClass>&);
template ConfigChoice<codegen::ForwardTunables> fall_back(const problem::PlanKey&,
                                                          const codegen::Arch&, const std::string&);
template PlanChoice<launch::ForwardPass> choose_plan(Engine&, const problem::Problem&,
                                                     const problem::PlanKey&, const codegen::Arch&,
                                                     const std::optional<tuner::DeviceClass>&,
                                                     Compiling);
template ConfigChoice<codegen::BackwardTunables> find_config(
    Engine&, const problem::BackwardProblem&, const problem::BackwardPlanKey&, const codegen::Arch&,
    const std::optional<tuner::DeviceClass>&);
template ConfigChoice<codegen::BackwardTunables> fall_back(const problem::BackwardPlanKey&,
                                                           const codegen::Arch&,
                                                           const std::string&);
template PlanChoice<launch::BackwardPass> choose_plan(Engine&, const problem::BackwardProblem&,
                                                      const problem::BackwardPlanKey&,
                                                      const codegen::Arch&,
                                                      const std::optional<tuner::DeviceClass>&,
                                                      Compiling);

}  // namespace attnjit::runtime
