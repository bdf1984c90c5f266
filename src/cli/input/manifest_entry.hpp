#pragma once
#include <string>
#include <vector>

#include "base/json_fwd.hpp"
#include "cli/input/cases.hpp"

namespace attnjit::cli {

/// Appends the problems that one entry of a manifest stands for: one for each combination of its
/// members' values, named after the entry and the members that vary. `where` begins every error.
void append_entry(const base::Json& entry, const std::string& where, std::vector<Case>& cases);

}  // namespace attnjit::cli
