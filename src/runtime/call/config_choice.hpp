#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "launch/plan.hpp"
#include "runtime/load/engine.hpp"
#include "runtime/load/wgmma_verdict.hpp"
#include "tuner/record.hpp"

namespace attnjit::runtime {

/// The origin of a configuration.
enum class ConfigSource { kConfigZero, kRecord, kNeighbour, kPath };

/// "configuration 0", "record exact", "record neighbour", "path".
std::string_view name(ConfigSource source);

template <class Tunables>
struct ConfigChoice {
  Tunables config{};
  ConfigSource source = ConfigSource::kConfigZero;
  std::string why;                  ///< a sentence on that
  std::optional<std::string> slow;  ///< why_slow() of the configuration that this one replaces
};

/// The configuration that the closest tuning record of `device` has for `problem`, whose plan key
/// is `key`, on `arch`, where the environment lets records be read and there is one; or else
/// configuration 0. With Engine::path() it is configuration 0 on that path, or an
/// Error(kUnsupported). Times nothing. Under ATTNJIT_AUTOTUNE=require throws Error(kCache) where
/// there is no record.
template <class Problem, class PlanKey>
ConfigChoice<tuner::TunablesFor<PlanKey>> find_config(
    Engine& engine, const Problem& problem, const PlanKey& key, const codegen::Arch& arch,
    const std::optional<tuner::DeviceClass>& device);

/// Configuration 0 on Path::kMma, in the place of one that is slow.
template <class PlanKey>
ConfigChoice<tuner::TunablesFor<PlanKey>> fall_back(const PlanKey& key, const codegen::Arch& arch,
                                                    const std::string& slow);

/// A configuration and the kernels that it makes.
template <class Pass>
struct PlanChoice : ConfigChoice<typename Pass::Tunables> {
  typename Pass::Spec spec;
};

/// What `problem` runs: with the configuration of find_config(), unless that is slow (why_slow()),
/// then of fall_back(). Throws as find_config() and, with Compiling::kAllowed, as Engine::kernel().
template <class Pass>
PlanChoice<Pass> choose_plan(Engine& engine, const typename Pass::Problem& problem,
                             const typename Pass::Key& key, const codegen::Arch& arch,
                             const std::optional<tuner::DeviceClass>& device, Compiling compiling);

}  // namespace attnjit::runtime
