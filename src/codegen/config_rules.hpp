#pragma once
#include <optional>
#include <string>

#include "codegen/arch.hpp"
#include "codegen/config_json.hpp"

namespace attnjit::codegen {

/// The rule that keeps `config` from running problems of `family` on `arch`, or nullopt.
inline std::optional<std::string> why_unfit(const kernel::ForwardConfig& config,
                                            const problem::Family& family, const Arch& arch) {
  auto rule = why_foreign(config, family);
  return rule ? rule : why_invalid(config, arch);
}

}  // namespace attnjit::codegen
