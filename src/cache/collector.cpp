#include "cache/collector.hpp"

#include <system_error>
#include <utility>

#include "cache/file_lock.hpp"
#include "cache/sweep.hpp"

namespace attnjit::cache {
namespace {

constexpr std::chrono::hours kBetweenCollections(1);

}  // namespace

Collector::Collector(Store& store, SizeLimits limits, std::filesystem::path lock_directory,
                     base::Log& log)
    : store_(store), limits_(limits), lock_directory_(std::move(lock_directory)), log_(log) {}

void Collector::note_write(std::uint64_t bytes) {
  {
    State& state = *state_;
    const std::scoped_lock lock(state.mutex);
    state.size.bytes += bytes;
    ++state.size.files;
    const auto now = std::chrono::steady_clock::now();
    const bool first = !state.collected;
    if (!first && (now < *state.collected + kBetweenCollections || !exceeds(state.size, limits_))) {
      return;
    }
    state.collected = now;
  }
  collect();
}

std::optional<Collection> Collector::collect() {
  if (!store_.used()) return std::nullopt;
  const FileLock lock(lock_directory_ / (store_.root_digest() + "-gc.lock"),
                      std::chrono::milliseconds(0), log_);
  if (lock.outcome() == FileLock::Outcome::kBusy) return std::nullopt;
  Collection done;
  const base::FileTime now = std::chrono::system_clock::now();
  done.swept = sweep(store_.temporary_directory(), now);
  std::vector<StoredFile> files = store_.list();
  done.left = size_of(files);
  std::error_code ignored;
  for (const StoredFile& file : choose_evicted(std::move(files), limits_, now)) {
    if (!std::filesystem::remove(file.path, ignored)) continue;
    done.evicted.bytes += file.bytes;
    ++done.evicted.files;
  }
  done.left.bytes -= done.evicted.bytes;
  done.left.files -= done.evicted.files;
  State& state = *state_;
  const std::scoped_lock size_lock(state.mutex);
  state.size = done.left;
  return done;
}

}  // namespace attnjit::cache
