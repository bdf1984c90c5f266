#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "runtime/engine.hpp"
#include "tuner/record.hpp"

namespace attnjit::runtime {

/// Where a configuration comes from.
enum class ConfigSource { kConfigZero, kRecord, kNeighbour };

/// "configuration 0", "record exact", "record neighbour".
std::string_view name(ConfigSource source);

template <class Config>
struct ConfigChoice {
  Config config{};
  ConfigSource source = ConfigSource::kConfigZero;
  std::string why;  ///< a sentence on that
};

/// The configuration that `problem` runs with on `arch`: that of the closest tuning record of
/// `device`, where the environment lets records be read and there is one, or else configuration 0.
/// Times nothing. Under ATTNJIT_AUTOTUNE=require throws Error(kCache) where there is no record.
ConfigChoice<kernel::ForwardConfig> choose_config(Engine& engine, const problem::Problem& problem,
                                                  const codegen::Arch& arch,
                                                  const std::optional<tuner::DeviceClass>& device);
ConfigChoice<codegen::BackwardTunables> choose_config(
    Engine& engine, const problem::BackwardProblem& problem, const codegen::Arch& arch,
    const std::optional<tuner::DeviceClass>& device);

}  // namespace attnjit::runtime
