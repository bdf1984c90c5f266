#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "runtime/engine.hpp"
#include "tuner/record.hpp"

namespace attnjit::runtime {

/// The origin of a configuration.
enum class ConfigSource { kConfigZero, kRecord, kNeighbour };

/// "configuration 0", "record exact", "record neighbour".
std::string_view name(ConfigSource source);

template <class Tunables>
struct ConfigChoice {
  Tunables config{};
  ConfigSource source = ConfigSource::kConfigZero;
  std::string why;  ///< a sentence on that
};

/// The configuration that `problem`, whose plan key is `key`, runs with on `arch`: that of the
/// closest tuning record of `device`, where the environment lets records be read and there is one,
/// or else configuration 0. Times nothing. Under ATTNJIT_AUTOTUNE=require throws Error(kCache)
/// where there is no record.
template <class Problem, class PlanKey>
ConfigChoice<tuner::TunablesFor<PlanKey>> choose_config(
    Engine& engine, const Problem& problem, const PlanKey& key, const codegen::Arch& arch,
    const std::optional<tuner::DeviceClass>& device);

}  // namespace attnjit::runtime
