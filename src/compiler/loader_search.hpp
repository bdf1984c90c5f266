#pragma once
#include <filesystem>
#include <optional>
#include <string>

namespace attnjit::compiler {

/// Whether the library of that name or path is mapped into this process already.
bool is_mapped(const std::string& name);

/// The file that dlopen(`soname`) would map, found without mapping it: LD_LIBRARY_PATH and the run
/// paths, the loader's cache, its default directories. nullopt where there is none, or the loader's
/// cache is of a format that this does not read.
std::optional<std::filesystem::path> find_by_soname(const std::string& soname);

}  // namespace attnjit::compiler
