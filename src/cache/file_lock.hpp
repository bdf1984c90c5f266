#pragma once
#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>

#include "base/file.hpp"
#include "base/log.hpp"

namespace attnjit::cache {

/// An exclusive lock among the processes and threads of one node. The kernel drops it when its
/// holder dies. Its file is removed by the holder, while it holds it; one that was killed leaves it
/// to the next. A child of fork() shares the holder's lock: it neither drops it nor keeps it from
/// being dropped.
class FileLock {
 public:
  /// The outcome of an attempt: with the lock, after its time (kBusy), or with no means to lock.
  enum class Outcome { kHeld, kBusy, kUnavailable };

  /// Locks `path`, whose directory is created when missing, within `budget`. Says so in the log
  /// when the wait is long enough to be noticed, and once when locking does not work here.
  FileLock(const std::filesystem::path& path, std::chrono::milliseconds budget, base::Log& log);

  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  Outcome outcome() const { return outcome_; }

 private:
  const std::filesystem::path path_;
  const pid_t process_;
  base::UniqueFd fd_;
  Outcome outcome_ = Outcome::kUnavailable;
};

}  // namespace attnjit::cache
