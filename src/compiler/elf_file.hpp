#pragma once
#include <filesystem>
#include <optional>
#include <string>

namespace attnjit::compiler {

/// A name of the bytes of a shared library of this machine's kind, in hexadecimal digits, read from
/// its file without mapping it: those of its GNU build id or, where it carries none, of a digest of
/// its size, beginning and end. nullopt where the file is no such library.
std::optional<std::string> id_of_file(const std::filesystem::path& path);

}  // namespace attnjit::compiler
