#pragma once
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace attnjit::cli {

/// The most that is read of a file or pipe, which may be endless.
inline constexpr std::size_t kMaxTextBytes = std::size_t{64} << 20;

/// The contents of `file`. A usage error that names `flag` where it cannot be read or is larger
/// than kMaxTextBytes.
std::string read_text_file(std::string_view flag, const std::filesystem::path& file);

}  // namespace attnjit::cli
