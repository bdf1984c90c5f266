#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cli/input/cases.hpp"

namespace attnjit::cli {

/// A file of problems, with every list crossed.
struct Manifest {
  std::vector<std::string> archs;  ///< what the file asks for; may be empty
  std::vector<Case> cases;
  std::vector<std::string> warnings;  ///< lines that were skipped, and why
};

/// Reads JSON with comments, {"schema": 1, "problems": [...]}, or JSON lines, an entry each; the
/// schema is configs/schema/manifest.schema.json. Of equal lines one counts; a line that is no
/// JSON, as a crash of a recorder leaves, is skipped with a warning. A usage error names `file`,
/// the entry, the member and what is allowed there.
Manifest parse_manifest(std::string_view text, const std::string& file);

/// parse_manifest() of a file's contents.
Manifest load_manifest(const std::filesystem::path& file);

}  // namespace attnjit::cli
