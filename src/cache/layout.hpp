#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.hpp"
#include "cache/key.hpp"

namespace attnjit::cache {

/// An entry file as its path tells it; the contents are not looked at.
struct StoredFile {
  std::filesystem::path path;
  std::string arch;
  std::string key;           ///< 64 hexadecimal digits
  std::string compiler_tag;  ///< 8 hexadecimal digits, see compiler_tag()
  std::uint64_t bytes = 0;   ///< 0 for what is not a regular file
  base::FileTime used;       ///< when it was written, or last hit, to kUseInterval
};

/// The name of the lock file of `what`, a kernel or a record, in the cache whose Root::digest() is
/// `root`: another cache's is another.
std::string lock_name(std::string_view root, const base::Digest& what);

/// The directory below `root` of files of this library's entry format: <root>/v<kEntryFormat>.
std::filesystem::path version_directory(const std::filesystem::path& root);

/// The part of a file's name that tells compilers apart: a digest of the compiler's identity.
std::string compiler_tag(std::string_view compiler_id);

/// The directory under `version` of the keys that share `key`'s first byte. Throws
/// Error(kInternal) unless `arch` is lower-case letters, digits and underscores.
std::filesystem::path shelf(const std::filesystem::path& version, const KernelKey& key,
                            std::string_view arch);

/// The path of an entry: shelf()/<62 digits of the key>.<compiler tag>.atk. `bytes` is left 0.
StoredFile place(const std::filesystem::path& version, const KernelKey& key, std::string_view arch,
                 std::string_view compiler_id);

/// Undoes place() for a path found on disk; nullopt where it is not named like that.
std::optional<StoredFile> parse_name(const std::filesystem::path& path);

/// The paths in `directory`, sorted; none where it cannot be read.
std::vector<std::filesystem::path> children(const std::filesystem::path& directory);

/// Whether `path` itself, not what it may link to, is a regular file.
bool is_regular(const std::filesystem::path& path);

}  // namespace attnjit::cache
