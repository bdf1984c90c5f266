#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "base/file.hpp"

namespace attnjit::cache {

/// `path` in lexically normal form and without a slash at its end: the system follows "link/" and
/// "link/." where it has to see the link.
std::filesystem::path normal_form(const std::filesystem::path& path);

/// The rule that makes the existing directory `path` unfit to hold files that this process loads
/// ("it is a symbolic link"); nullopt where it is fit, or absent.
std::optional<std::string> why_untrusted(const std::filesystem::path& path);

/// The directory of that name, open; no descriptor where there is none that is fit.
base::UniqueFd open_trusted(const std::filesystem::path& path);

/// Creates `path` and its missing parents with mode 0700. 0, or the errno of mkdir(); what exists
/// already is left as it is.
int make_private_directories(const std::filesystem::path& path);

}  // namespace attnjit::cache
