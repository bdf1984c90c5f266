#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "base/file.hpp"
#include "base/log.hpp"
#include "base/per_process.hpp"

namespace attnjit::cache {

/// The directory of a cache, and what its stores, of kernels and of tuning records, do alike: they
/// use it only where no other user could write to it, and put files there whole or not at all.
/// Thread-safe. Nothing is created before the first write().
class Root {
 public:
  /// `path` nullopt: there is no disk. After a failed write, write() does nothing for
  /// `write_pause`. `log` must outlive the root.
  Root(std::optional<std::filesystem::path> path, base::Log& log,
       std::chrono::milliseconds write_pause = std::chrono::seconds(60));

  /// In normal_form().
  const std::optional<std::filesystem::path>& path() const { return path_; }

  /// The directory below path() of this library's entry format. There must be a path().
  std::filesystem::path version_directory() const;

  /// The directory of unfinished files. There must be a path().
  std::filesystem::path temporary_directory() const { return version_directory() / "tmp"; }

  /// Why nothing is read or written here: there is no path(), or somebody else could write to it,
  /// which is warned of once. nullopt where it is used, for instance because it is still absent.
  std::optional<std::string> why_unused() const;
  bool trusted() const { return !why_unused(); }

  /// 16 hexadecimal digits that stand for the directory, whatever links lead to it.
  std::string digest() const;

  /// Puts `bytes` at `path`, below version_directory(), with all directories that are missing. The
  /// root must be trusted(). Returns why `bytes` are not there; nullopt: they are. A failure is
  /// counted and logged, never thrown.
  std::optional<std::string> write(const std::filesystem::path& path,
                                   std::span<const std::byte> bytes);

  std::uint64_t write_failures() const { return write_failures_; }

 private:
  base::WriteResult try_write(const std::filesystem::path& path,
                              std::span<const std::byte> bytes) const;
  std::optional<std::string> why_paused() const;
  void note_failure(const base::WriteResult& result);
  std::string cannot_write(const base::WriteResult& result) const;

  const std::optional<std::filesystem::path> path_;
  base::Log& log_;
  const std::chrono::steady_clock::duration write_pause_;
  struct Pause {
    std::mutex mutex;
    std::chrono::steady_clock::time_point until;
    std::string why;
  };
  base::PerProcess<Pause> pause_;
  std::atomic<std::uint64_t> write_failures_ = 0;
};

}  // namespace attnjit::cache
