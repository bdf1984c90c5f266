#pragma once
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

#include "base/log.hpp"
#include "tuner/record.hpp"

namespace attnjit::tuner {

/// A record that serves a problem.
template <class PlanKey>
struct BasicRecordMatch {
  BasicRecord<PlanKey> record;
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
  template <class PlanKey>
  std::optional<BasicRecordMatch<PlanKey>> find(const BasicTuneKey<PlanKey>& key) const;

  /// The record of `key` itself.
  template <class PlanKey>
  std::optional<BasicRecord<PlanKey>> find_exact(const BasicTuneKey<PlanKey>& key) const;

  /// The record of `key` that this process remembered.
  template <class PlanKey>
  std::optional<BasicRecord<PlanKey>> recall(const BasicTuneKey<PlanKey>& key) const;

  /// Keeps `record` in memory.
  template <class PlanKey>
  void remember(const BasicRecord<PlanKey>& record);

  /// Keeps `record` in memory, and on disk if that can be done; a failure is logged, never thrown.
  template <class PlanKey>
  void publish(const BasicRecord<PlanKey>& record);

  /// Every readable record on disk, sorted by path.
  std::vector<AnyRecord> list() const;

  /// The place where publish() puts the record of `key`, below the root's version directory.
  template <class PlanKey>
  static std::filesystem::path place(const BasicTuneKey<PlanKey>& key);

 private:
  bool trusted() const;
  std::filesystem::path directory() const;
  std::optional<AnyRecord> read(const std::filesystem::path& path) const;
  template <class PlanKey>
  using Remembered = std::map<BasicTuneKey<PlanKey>, BasicRecord<PlanKey>>;

  const std::optional<std::filesystem::path> root_;
  base::Log& log_;
  mutable std::mutex mutex_;
  std::tuple<Remembered<problem::PlanKey>, Remembered<problem::BackwardPlanKey>> remembered_;
};

}  // namespace attnjit::tuner
