#pragma once
#include <filesystem>
#include <vector>

#include "base/file.hpp"

namespace attnjit::cache {

/// The unfinished files in `temporary` that no process will finish: their writer has ended, or has
/// not written to them for an hour before `now`. What is dated after `now` counts as new.
std::vector<std::filesystem::path> abandoned_files(const std::filesystem::path& temporary,
                                                   base::FileTime now);

/// Removes abandoned_files(). Returns how many.
std::size_t sweep(const std::filesystem::path& temporary, base::FileTime now);

}  // namespace attnjit::cache
