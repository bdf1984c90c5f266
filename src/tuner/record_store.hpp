#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "base/log.hpp"
#include "tuner/record.hpp"

namespace attnjit::tuner {

/// A record that serves a problem.
struct RecordMatch {
  Record record;
  bool exact = true;  ///< of the problem's own buckets; else of neighbouring ones
};

/// Records on disk, one file each, <root>/v1/t/<device class>/<family and space>/<buckets>.json,
/// and those of this process in memory. Guarded as cached kernels are: files are complete from the
/// moment that they are visible, one that somebody else could have written is not read, and one
/// that cannot be understood counts as absent, with a line in the log. Thread-safe.
class RecordStore {
 public:
  /// `root` nullopt: there is no disk. `log` must outlive the store.
  RecordStore(std::optional<std::filesystem::path> root, base::Log& log);

  /// find_exact(), or else that of the closest buckets of the same family and device
  /// class, at most one step away on each axis; the smaller problem where two are as close.
  std::optional<RecordMatch> find(const TuneKey& key) const;

  /// The record of `key` itself.
  std::optional<Record> find_exact(const TuneKey& key) const;

  /// The record of `key` that this process remembered.
  std::optional<Record> recall(const TuneKey& key) const;

  /// Keeps `record` in memory.
  void remember(const Record& record);

  /// Keeps `record` in memory, and on disk if that can be done; a failure is logged, never thrown.
  void publish(const Record& record);

  /// Every readable record on disk, sorted by path.
  std::vector<Record> list() const;

  /// Where publish() puts the record of `key`, below the root's version directory.
  static std::filesystem::path place(const TuneKey& key);

 private:
  bool trusted() const;
  std::filesystem::path directory() const;
  std::optional<Record> read(const std::filesystem::path& path) const;

  const std::optional<std::filesystem::path> root_;
  base::Log& log_;
  mutable std::mutex mutex_;
  std::map<TuneKey, Record> remembered_;
};

}  // namespace attnjit::tuner
