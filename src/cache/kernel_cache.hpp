#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/log.hpp"
#include "base/per_process.hpp"
#include "cache/bundle_path.hpp"
#include "cache/collector.hpp"
#include "cache/entry.hpp"
#include "cache/file_lock.hpp"
#include "cache/store.hpp"

namespace attnjit::cache {

struct KernelCacheOptions {
  std::optional<std::filesystem::path> directory;  ///< of the store; nullopt: memory only
  std::filesystem::path lock_directory;            ///< on this node; created when needed
  std::chrono::milliseconds lock_budget = std::chrono::seconds(10);
  const BundlePath* bundles = nullptr;  ///< asked before the store; outlives the cache
  SizeLimits limits;
};

/// Counts of what the cache did so far.
struct Counters {
  std::uint64_t memory_hits = 0;  ///< waiting for another thread's build included
  std::uint64_t bundle_hits = 0;
  std::uint64_t disk_hits = 0;
  std::uint64_t builds = 0;   ///< that gave a kernel
  std::uint64_t corrupt = 0;  ///< files of the store, and members of bundles
  std::uint64_t write_failures = 0;
  std::uint64_t lock_timeouts = 0;
};

/// The ways to ask for the exact identity of the compiler; "" where there is none: then an entry of
/// any compiler serves. `likely` costs little and may be wrong; `exact` may cost the time to open a
/// compiler.
struct CompilerIdentity {
  std::function<std::string()> likely;
  std::function<std::string()> exact;
};

/// A kernel, and where it was.
struct Fetched {
  enum class Origin { kMemory, kBundle, kDisk, kBuild };

  std::shared_ptr<const Entry> entry;
  Origin origin = Origin::kBuild;
  std::optional<std::string> why_not_kept;  ///< why it is in no file; nullopt: it is in one
};

/// Another entry of a kernel, and the lock under which it was found or built; null without a disk.
struct SecondEntry {
  std::unique_ptr<FileLock> lock;
  Entry entry;
};

/// Get or build: each kernel is built once per process, once per node while the locks work, and
/// once per store otherwise. A lock only ever saves work; no result depends on one. Thread-safe,
/// and usable in a child of fork(), which has a memory of its own.
class KernelCache {
 public:
  /// `compiler.likely` is asked when memory and bundles miss, `compiler.exact` when the disk does,
  /// each until there is an answer. `log` must outlive the cache.
  KernelCache(KernelCacheOptions options, CompilerIdentity compiler, base::Log& log);

  /// The kernel of `key`, from memory, a bundle, disk, or `build`, which gives its meta_json and
  /// cubin; the cache fills in the rest. What `build` throws reaches everyone who waits for this
  /// key, and Error(kNoCompiler) does where the cubin is no code for `arch`. Only an
  /// Error(kCompile), for a source that does not compile, is kept for later calls,
  /// until reset(); after anything else the next call looks at the disk again.
  Fetched fetch(const KernelKey& key, const std::string& arch, const std::function<Entry()>& build);
  std::shared_ptr<const Entry> get(const KernelKey& key, const std::string& arch,
                                   const std::function<Entry()>& build) {
    return fetch(key, arch, build).entry;
  }

  /// Another entry of the kernel of `refused`, which the driver does not take: that on disk where
  /// it has other code, else of `build`. It is not kept before replace(), and other processes that
  /// want one wait for as long as the result lives.
  SecondEntry second_entry(const Entry& refused, const std::function<Entry()>& build);

  /// Keeps `entry` on disk, unless an intact one is there, and the store below its limits. Returns
  /// as Store::publish() does.
  std::optional<std::string> publish(const Entry& entry);

  /// Keeps `entry` in the place of another of its key, in memory and on disk.
  void replace(Entry entry);

  /// Forgets entries and failed builds in memory; the store keeps its files.
  void reset();

  /// The same from a bundle or disk only; nullopt where neither has it. Counts nothing.
  std::optional<Fetched> look_up(const KernelKey& key, const std::string& arch);

  Counters counters() const;
  Store& store() { return store_; }
  const Store& store() const { return store_; }

 private:
  /// The work of one caller that all others who want the same kernel wait for.
  struct Flight {
    std::promise<Fetched> promise;
    const std::shared_future<Fetched> result = promise.get_future().share();
  };

  /// The flight of `key`, which is `own` where there was none.
  std::shared_ptr<Flight> join(const KernelKey& key, const std::shared_ptr<Flight>& own);
  void forget(const KernelKey& key, const std::shared_ptr<Flight>& flight);
  Fetched load_or_build(const KernelKey& key, const std::string& arch,
                        const std::function<Entry()>& build);
  std::unique_ptr<FileLock> lock(const KernelKey& key);
  Entry build_counted(const KernelKey& key, const std::string& arch,
                      const std::function<Entry()>& build);
  std::optional<Entry> find_in_bundles(const KernelKey& key, const std::string& arch) const;
  std::optional<Fetched> find_on_disk(const KernelKey& key, const std::string& arch,
                                      const std::string& compiler_id);
  std::string likely_compiler_id();
  std::string exact_compiler_id();

  const KernelCacheOptions options_;
  base::Log& log_;
  Store store_;
  Collector collector_;

  const CompilerIdentity compiler_;

  struct State {
    std::mutex compiler_mutex;
    std::string likely_id, exact_id;  // empty: not known yet

    std::mutex flights_mutex;  // never held while anything is built, read or waited for
    std::map<KernelKey, std::shared_ptr<Flight>> flights;
  };
  base::PerProcess<State> state_;

  std::atomic<std::uint64_t> memory_hits_ = 0;
  std::atomic<std::uint64_t> bundle_hits_ = 0;
  std::atomic<std::uint64_t> disk_hits_ = 0;
  std::atomic<std::uint64_t> builds_ = 0;
  std::atomic<std::uint64_t> lock_timeouts_ = 0;
};

}  // namespace attnjit::cache
