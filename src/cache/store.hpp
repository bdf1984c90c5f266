#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/log.hpp"
#include "base/per_process.hpp"
#include "cache/entry.hpp"
#include "cache/layout.hpp"
#include "cache/root.hpp"

namespace attnjit::cache {

/// An entry that cannot be used, and why.
struct BadEntry {
  std::filesystem::path path;
  std::string reason;
};

/// Kernels on disk, one file each, shared by any number of processes without a lock: files are
/// complete from the moment that they are visible, and damage is a miss. Thread-safe. A directory
/// that others could write is not used, one that cannot be written is still read; both are said
/// once in the log. Nothing is created before the first publish(). A hit sets the time of an
/// entry's file unless that is within kUseInterval; a damaged entry is moved to quarantine.
class Store {
 public:
  /// `root` nullopt: there is no disk, and every find() misses. After a failed write, publish()
  /// writes nothing for `write_pause`. `log` must outlive the store.
  Store(std::optional<std::filesystem::path> root, base::Log& log,
        std::chrono::milliseconds write_pause = std::chrono::seconds(60));

  /// The intact entry of that key, architecture and compiler; an empty `compiler_id` takes any
  /// compiler's.
  std::optional<Entry> find(const KernelKey& key, std::string_view arch,
                            std::string_view compiler_id);

  /// Keeps `entry` if that can be done. Returns why it is not on disk; nullopt: it is. A failure is
  /// counted and logged, never thrown.
  std::optional<std::string> publish(const Entry& entry);

  /// The same, in the place of an intact entry too.
  std::optional<std::string> replace(const Entry& entry);

  /// The file in which publish() keeps the entry of that key; nullopt where there is no disk.
  std::optional<std::filesystem::path> path_of(const KernelKey& key, std::string_view arch,
                                               std::string_view compiler_id) const;

  /// Every file that is named as an entry, sorted by path.
  std::vector<StoredFile> list() const;

  /// The entry in `file`, or why it cannot be used (contents that belong under another name too).
  /// `stamp`, unless null, gets that of what was read.
  std::variant<Entry, Rejection> read(const StoredFile& file,
                                      base::FileStamp* stamp = nullptr) const;

  /// read() of every listed file: those that failed, and what killed writers left unfinished.
  std::vector<BadEntry> verify() const;

  /// Removes all entries, unfinished writes and the quarantine; other files are left alone. Returns
  /// the number of entries removed.
  std::size_t clear();

  const std::optional<std::filesystem::path>& root() const { return root_.path(); }
  bool used() const { return root_.trusted(); }
  std::filesystem::path temporary_directory() const { return root_.temporary_directory(); }
  std::filesystem::path quarantine_directory() const;
  std::string root_digest() const { return root_.digest(); }  ///< of root(), if there is one
  std::uint64_t corrupt() const { return corrupt_; }          ///< damaged files met
  std::uint64_t write_failures() const { return too_large_ + root_.write_failures(); }

 private:
  std::optional<Entry> load(const StoredFile& file);
  void note_damage(const StoredFile& file, const base::FileStamp& stamp, const std::string& reason);

  Root root_;
  base::Log& log_;
  struct Damaged {
    std::mutex mutex;
    std::set<std::filesystem::path> files;  // counted and not yet replaced
  };
  base::PerProcess<Damaged> damaged_;
  std::atomic<std::uint64_t> corrupt_ = 0;
  std::atomic<std::uint64_t> too_large_ = 0;
};

}  // namespace attnjit::cache
