#pragma once
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.hpp"
#include "cache/bundle.hpp"

namespace attnjit::cache {

/// The read-only bundles that ATTNJIT_BUNDLE_PATH names, in its order. A kernel is matched by key
/// and architecture alone: the user who installed the bundle has chosen its compiler, so that a
/// process whose kernels are all here needs none. Nothing is ever written to a bundle. Thread-safe.
class BundlePath {
 public:
  /// Opens `named`: bundles, and directories, which mean the *.atkb files in them by name. What
  /// cannot be used is left out, with one warning each. `log` must outlive this.
  BundlePath(const std::vector<std::filesystem::path>& named, base::Log& log);

  /// The kernel of that key and architecture, from the first bundle that has it intact.
  std::optional<Entry> find(const KernelKey& key, std::string_view arch) const;

  /// The file that find() takes it from; an index look-up, which reads nothing.
  std::optional<std::filesystem::path> locate(const KernelKey& key, std::string_view arch) const;

  /// The tuning record of that name (BundleWriter::add_record), from the first bundle that has it
  /// intact.
  std::optional<std::string> find_record(const base::Digest& name, std::string_view arch) const;

  /// Every intact tuning record; those of the first bundle first.
  std::vector<std::string> records() const;

  /// A file or directory that is not used, and why.
  struct Refused {
    std::filesystem::path path;
    std::string reason;
  };

  const std::vector<Bundle>& bundles() const { return bundles_; }
  const std::vector<Refused>& refused() const { return refused_; }

  /// Damaged members met so far.
  std::uint64_t corrupt() const { return corrupt_; }

 private:
  void open(const std::filesystem::path& path);
  void open_all(const std::filesystem::path& directory);
  void refuse(const std::filesystem::path& path, std::string reason);
  std::optional<std::string> record(const Bundle& bundle, const BundleMember& member) const;
  void note_damage(const Bundle& bundle, const BundleMember& member,
                   const std::string& reason) const;

  base::Log& log_;
  std::vector<Bundle> bundles_;
  std::vector<Refused> refused_;
  mutable std::atomic<std::uint64_t> corrupt_ = 0;
};

}  // namespace attnjit::cache
