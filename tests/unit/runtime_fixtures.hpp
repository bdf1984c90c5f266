#pragma once
#include <map>
#include <optional>
#include <string>

#include "base/environment.hpp"

namespace attnjit::test {

using Variables = std::map<std::string, std::string>;

/// An environment of `variables` alone, but for the place of NVRTC, which is this machine's.
inline base::Environment environment(const Variables& variables) {
  const base::Environment machine = base::process_environment();
  base::Environment result =
      base::parse_environment([&](const char* name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional(found->second);
      });
  result.nvrtc_path = machine.nvrtc_path;
  result.cuda_directories = machine.cuda_directories;
  return result;
}

}  // namespace attnjit::test
