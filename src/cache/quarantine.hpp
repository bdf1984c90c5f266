#pragma once
#include <cstddef>
#include <filesystem>

#include "base/file.hpp"
#include "cache/layout.hpp"

namespace attnjit::cache {

/// The number of damaged entries that are kept for a look at them.
inline constexpr std::size_t kQuarantinedFiles = 16;

/// Moves a damaged entry into `directory`, whose oldest ones make room. Does nothing where that
/// cannot be done, `directory` is a link or not ours alone, or `file` is no longer what `stamp` was
/// read from. `now` orders the files.
void quarantine(const StoredFile& file, const base::FileStamp& stamp,
                const std::filesystem::path& directory, base::FileTime now);

/// Removes what quarantine() put into `directory`, and nothing else.
void empty_quarantine(const std::filesystem::path& directory);

}  // namespace attnjit::cache
