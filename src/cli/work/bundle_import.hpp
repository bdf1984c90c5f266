#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "cache/bundle.hpp"
#include "cli/work/session.hpp"

namespace attnjit::cli {

/// What became of the members of a bundle.
struct ImportCounts {
  std::size_t added = 0;
  std::size_t kept = 0;               ///< there already, or a record that is less noisy was
  std::vector<std::string> rejected;  ///< which this version cannot use, and why
  std::vector<std::string> failed;    ///< which are not there afterwards

  std::size_t there() const { return added + kept; }
};

/// Every member of `bundle` that is damaged, and how.
std::vector<std::string> damaged_members(const cache::Bundle& bundle);

/// Puts the members of `bundle` into the cache directory, and looks whether they are there.
ImportCounts import_kernels(const cache::Bundle& bundle, Session& session);
ImportCounts import_records(const cache::Bundle& bundle, Session& session);

}  // namespace attnjit::cli
