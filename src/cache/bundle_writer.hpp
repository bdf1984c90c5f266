#pragma once
#include <cstddef>
#include <filesystem>
#include <map>
#include <string_view>
#include <vector>

#include "base/file.hpp"
#include "cache/bundle_format.hpp"
#include "cache/entry.hpp"

namespace attnjit::cache {

/// Collects kernels and tuning records, and writes them as a bundle. The same members, in any
/// order, give the same bytes. All of them are held in memory.
class BundleWriter {
 public:
  /// Adds a member unless there is one of its name; false where there was. Throws Error(kCache)
  /// for one that is larger than a bundle may hold, and where the arch has no name in it.
  bool add(const Entry& entry);
  /// `name` is the digest that look-ups of the record ask for, `json` the record on one line.
  bool add_record(const base::Digest& name, std::string_view arch, std::string_view json);

  std::size_t kernels() const { return count(MemberKind::kKernel); }
  std::size_t records() const { return count(MemberKind::kRecord); }

  /// The whole file.
  std::vector<std::byte> encode() const;

  /// Puts the file at `path`, readable for everyone whom the umask allows: readers see the old
  /// file or the whole new one, which is on the disk once this returns. Throws Error(kCache) where
  /// that cannot be done, and where `path` is something else than a regular file.
  void write(const std::filesystem::path& path) const;

 private:
  std::size_t count(MemberKind kind) const;
  bool add(std::optional<MemberName> name, std::string_view arch, std::vector<std::byte> bytes);

  std::map<MemberName, std::vector<std::byte>> members_;
};

}  // namespace attnjit::cache
