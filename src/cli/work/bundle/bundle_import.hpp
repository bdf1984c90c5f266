#pragma once
#include <string>
#include <vector>

#include "cache/bundle.hpp"
#include "cli/work/bundle/imported.hpp"
#include "cli/work/session.hpp"

namespace attnjit::cli {

/// Every member of `bundle` that is damaged, and how.
std::vector<std::string> damaged_members(const cache::Bundle& bundle);

/// Puts the members of `bundle` into the cache directory.
Imported import_kernels(const cache::Bundle& bundle, Session& session);
Imported import_records(const cache::Bundle& bundle, Session& session);

}  // namespace attnjit::cli
