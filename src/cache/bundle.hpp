#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/random_access_file.hpp"
#include "cache/bundle_format.hpp"
#include "cache/entry.hpp"

namespace attnjit::cache {

/// A member of a bundle, as the index tells it.
struct BundleMember {
  MemberName name;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  base::Digest digest{};

  std::string arch() const;  ///< "sm_90a"
};

/// The name under which a bundle holds the kernel of `key`, or the tuning record of `record`. The
/// arch is at most 15 bytes: nothing has the name of a longer one.
std::optional<MemberName> member_name(const KernelKey& key, std::string_view arch);
std::optional<MemberName> member_name(const base::Digest& record, std::string_view arch);

/// A read-only file of kernels and tuning records, open for as long as this lives. Its index was
/// checked when it was opened, and each member is when it is read. Immutable and thread-safe.
class Bundle {
 public:
  /// Opens `path` and reads its index, or says why it cannot be used.
  static std::variant<Bundle, std::string> open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t bytes() const { return file_.size(); }
  const std::vector<BundleMember>& members() const { return members_; }

  /// nullptr where there is no such member. A binary search.
  const BundleMember* find(const MemberName& name) const;

  /// The kernel in `member`, or why it cannot be used.
  std::variant<Entry, std::string> kernel(const BundleMember& member) const;

  /// The tuning record in `member`; nullopt where it is damaged.
  std::optional<std::string> record(const BundleMember& member) const;

 private:
  Bundle(std::filesystem::path path, base::RandomAccessFile file, std::vector<BundleMember> members)
      : path_(std::move(path)), file_(std::move(file)), members_(std::move(members)) {}

  std::optional<std::vector<std::byte>> read(const BundleMember& member) const;

  std::filesystem::path path_;
  base::RandomAccessFile file_;
  std::vector<BundleMember> members_;  // in ascending order of their names
};

}  // namespace attnjit::cache
