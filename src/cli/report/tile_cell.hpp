#pragma once
#include <fmt/format.h>

#include <string>

#include "tuner/config_zero.hpp"
#include "tuner/record.hpp"

namespace attnjit::cli {

// Configurations as short as a table needs them. The long form is codegen::describe_tile().

/// The tile of the kernel that takes longest.
inline std::string main_tile(const codegen::ForwardTunables& config) {
  return codegen::describe_tile(config);
}
inline std::string main_tile(const codegen::BackwardTunables& config) {
  return codegen::describe_tile(config.dkv);
}

/// The tiles of `config` that differ from those of `zero`; the main tile where none does.
inline std::string changed_tiles(const codegen::ForwardTunables& config,
                                 const codegen::ForwardTunables&) {
  return main_tile(config);
}
inline std::string changed_tiles(const codegen::BackwardTunables& config,
                                 const codegen::BackwardTunables& zero) {
  std::string text = config.dkv == zero.dkv ? "" : main_tile(config);
  const auto add = [&](const char* what, bool runs, bool ran, const codegen::BackwardTile& tile,
                       const codegen::BackwardTile& before) {
    if (!runs || (ran && tile == before)) return;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", what, codegen::describe_tile(tile));
  };
  using codegen::DbiasMethod;
  using codegen::DqMethod;
  add("dq", config.dq_method == DqMethod::kKernel, zero.dq_method == DqMethod::kKernel, config.dq,
      zero.dq);
  add("dbias", config.dbias_method == DbiasMethod::kKernel,
      zero.dbias_method == DbiasMethod::kKernel, config.dbias, zero.dbias);
  return text.empty() ? main_tile(config) : text;
}

/// Configuration 0 of the problems of a record.
template <class PlanKey>
tuner::TunablesFor<PlanKey> config_zero(const tuner::BasicRecord<PlanKey>& record) {
  return tuner::config_zero(record.key.plan, codegen::find_arch(record.key.device.arch));
}

/// changed_tiles() of a record.
template <class PlanKey>
std::string tile_cell(const tuner::BasicRecord<PlanKey>& record) {
  return changed_tiles(record.config, config_zero(record));
}

}  // namespace attnjit::cli
