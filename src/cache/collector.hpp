#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>

#include "base/log.hpp"
#include "base/per_process.hpp"
#include "cache/eviction.hpp"
#include "cache/store.hpp"

namespace attnjit::cache {

/// The outcome of a collection.
struct Collection {
  Size evicted;
  Size left;
  std::size_t swept = 0;  ///< unfinished files of writers that are gone
};

/// Keeps a store below its limits, and clean of what killed writers left behind. Readers are not
/// disturbed: files are only unlinked. Tuning records are neither counted nor removed. Thread-safe.
class Collector {
 public:
  /// One process collects at a time, by a lock in `lock_directory`. `store` and `log` must outlive
  /// the collector.
  Collector(Store& store, SizeLimits limits, std::filesystem::path lock_directory, base::Log& log);

  /// Notes that an entry of `bytes` was written. The first write of a process collects; after it
  /// one that takes the size over a limit, once an hour at most.
  void note_write(std::uint64_t bytes);

  /// Sweeps, and evicts where the store is over a limit. nullopt: another process is at it, or
  /// there is no store that is used.
  std::optional<Collection> collect();

 private:
  struct State {
    std::mutex mutex;
    std::optional<std::chrono::steady_clock::time_point> collected;
    Size size;  // what this process knows of
  };

  Store& store_;
  const SizeLimits limits_;
  const std::filesystem::path lock_directory_;
  base::Log& log_;
  base::PerProcess<State> state_;
};

}  // namespace attnjit::cache
