#pragma once
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include "base/log.hpp"
#include "base/per_process.hpp"
#include "cache/bundle_path.hpp"
#include "cache/root.hpp"
#include "cache/store.hpp"
#include "tuner/record.hpp"
#include "tuner/shipped_records.hpp"

namespace attnjit::tuner {

/// A record that serves a problem.
template <class PlanKey>
struct BasicRecordMatch {
  BasicRecord<PlanKey> record;
  bool exact = true;  ///< of the problem's own buckets; else of neighbouring ones
};

/// Records on disk, one file each, <root>/v1/t/<device class>/<family and space>/<buckets>.json,
/// those of this process in memory, and below both, read only, those of bundles, then those that
/// came with the library. Guarded as cached kernels are: files are complete from the moment that
/// they are visible, one that somebody else could have written is not read, and one that cannot be
/// understood counts as absent, with a line in the log. Thread-safe.
class RecordStore {
 public:
  /// `root` nullopt: there is no disk. Writers of one record take turns by a lock in
  /// `lock_directory`. `shipped`: see ShippedRecords. `log` and `bundles`, if any, must outlive the
  /// store.
  RecordStore(std::optional<std::filesystem::path> root, std::filesystem::path lock_directory,
              base::Log& log, const cache::BundlePath* bundles = nullptr,
              std::string_view shipped = {});

  /// find_exact(), or else that of the closest buckets of the same family and device
  /// class, at most one step away on each axis; the smaller problem where two are as close.
  template <class PlanKey>
  std::optional<BasicRecordMatch<PlanKey>> find(const BasicTuneKey<PlanKey>& key) const;

  /// The record of `key` itself: what this process remembers, else from disk, else of a bundle,
  /// else a shipped one.
  template <class PlanKey>
  std::optional<BasicRecord<PlanKey>> find_exact(const BasicTuneKey<PlanKey>& key) const;

  /// The record of `key` that this process remembered.
  template <class PlanKey>
  std::optional<BasicRecord<PlanKey>> recall(const BasicTuneKey<PlanKey>& key) const;

  /// Keeps `record` in memory.
  template <class PlanKey>
  void remember(const BasicRecord<PlanKey>& record);

  /// Keeps `record`, which was measured where `superseded` was known, in memory, and on disk if
  /// that can be done. What another process has put there meanwhile stays if it is better().
  /// A record that a later process could not read is not written. Returns why neither is on disk;
  /// nullopt: one is. A failure is logged, never thrown.
  template <class PlanKey>
  std::optional<std::string> publish(
      const BasicRecord<PlanKey>& record,
      const std::optional<BasicRecord<PlanKey>>& superseded = std::nullopt);

  /// Every readable record on disk, sorted by path.
  std::vector<AnyRecord> list() const;

  /// Every readable record of the bundles.
  std::vector<AnyRecord> list_bundled() const;

  /// Every readable record that came with the library.
  std::vector<AnyRecord> list_shipped() const;

  /// The files on disk in a record's place that hold none, and why.
  std::vector<cache::BadEntry> verify() const;

  /// The place where publish() puts the record of `key`, below the root's version directory.
  template <class PlanKey>
  static std::filesystem::path place(const BasicTuneKey<PlanKey>& key);

  /// The id of the record of `key`, a digest of its place: its name in bundles and in records ls.
  template <class PlanKey>
  static base::Digest id(const BasicTuneKey<PlanKey>& key);

 private:
  /// A record, or why there is none.
  using Parsed = std::variant<AnyRecord, std::string>;

  static Parsed parse(std::string_view text);
  std::vector<std::filesystem::path> files() const;
  Parsed inspect(const std::filesystem::path& path) const;
  std::optional<AnyRecord> read(const std::filesystem::path& path) const;
  std::optional<AnyRecord> usable(Parsed parsed, std::string_view where) const;
  std::optional<std::string> why_unreadable(std::string_view text) const;
  template <class PlanKey>
  std::optional<AnyRecord> find_bundled(const BasicTuneKey<PlanKey>& key) const;
  template <class PlanKey>
  using Remembered = std::map<BasicTuneKey<PlanKey>, BasicRecord<PlanKey>>;

  cache::Root root_;
  const std::filesystem::path lock_directory_;
  base::Log& log_;
  const cache::BundlePath* const bundles_;
  const ShippedRecords shipped_;
  struct Memory {
    std::mutex mutex;
    std::tuple<Remembered<problem::PlanKey>, Remembered<problem::BackwardPlanKey>> records;
  };
  base::PerProcess<Memory> memory_;
};

}  // namespace attnjit::tuner
