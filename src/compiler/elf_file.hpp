#pragma once
#include <filesystem>
#include <optional>
#include <string>

namespace attnjit::compiler {

/// The bytes of the GNU build id of a shared library of this machine's kind, as hexadecimal digits,
/// read from its file without mapping it. nullopt where the file is no such library or carries
/// none.
std::optional<std::string> build_id_of_file(const std::filesystem::path& path);

}  // namespace attnjit::compiler
