#include "cache/root.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/sha256.hpp"
#include "cache/directory.hpp"
#include "cache/layout.hpp"

namespace attnjit::cache {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kDigits = 16;
constexpr std::string_view kCacheTag =
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# A cache directory, see https://bford.info/cachedir/. Backups may leave it out.\n";
constexpr std::string_view kReadme =
    "Compiled attention kernels of attnjit, and its tuning records. Everything here can be "
    "deleted\n"
    "at any time; what is needed again is compiled, and tuned, again.\n";

/// Tells backup programs, and people, what the directory is. It works as well without.
void label(const fs::path& root, const fs::path& temporary) {
  const auto put = [&](const char* name, std::string_view text) {
    std::error_code error;
    if (fs::exists(fs::symlink_status(root / name, error))) return;
    base::write_file_atomic(root / name, temporary, std::as_bytes(std::span(text)));
  };
  put("CACHEDIR.TAG", kCacheTag);
  put("README", kReadme);
}

}  // namespace

Root::Root(std::optional<fs::path> path, base::Log& log, std::chrono::milliseconds write_pause)
    : path_(path ? std::optional(normal_form(*path)) : std::nullopt),
      log_(log),
      write_pause_(write_pause) {}

fs::path Root::version_directory() const { return cache::version_directory(*path_); }

std::optional<std::string> Root::why_unused() const {
  if (!path_) return "there is no cache directory; set ATTNJIT_CACHE_DIR to one";
  const auto rule = why_untrusted(*path_);
  if (!rule) return std::nullopt;
  const std::string why = fmt::format("cache directory {} is not used: {}", path_->string(), *rule);
  log_.warn_once("cache directory",
                 fmt::format("{}; kernels and tuning records are kept in memory only; set "
                             "ATTNJIT_CACHE_DIR to a directory of your own",
                             why));
  return why;
}

std::string Root::digest() const {
  std::error_code error;
  const fs::path canonical = fs::weakly_canonical(*path_, error);
  return base::hex(base::sha256((error ? *path_ : canonical).string())).substr(0, kDigits);
}

std::optional<std::string> Root::write(const fs::path& path, std::span<const std::byte> bytes) {
  if (const auto why = why_paused()) return why;
  base::WriteResult result = try_write(path, bytes);
  // Someone deleted the cache meanwhile.
  if (result.error == ENOENT) result = try_write(path, bytes);
  if (result.ok()) return std::nullopt;
  note_failure(result);
  return cannot_write(result);
}

base::WriteResult Root::try_write(const fs::path& path, std::span<const std::byte> bytes) const {
  const fs::path temporary = temporary_directory();
  for (const fs::path& directory : {path.parent_path(), temporary}) {
    if (const int error = make_private_directories(directory); error != 0) return {error, "mkdir"};
  }
  label(*path_, temporary);
  return base::write_file_atomic(path, temporary, bytes);
}

std::optional<std::string> Root::why_paused() const {
  Pause& pause = *pause_;
  const std::scoped_lock lock(pause.mutex);
  return Clock::now() < pause.until ? std::optional(pause.why) : std::nullopt;
}

void Root::note_failure(const base::WriteResult& result) {
  ++write_failures_;
  // A directory in a file's place, a file that is too large and a name that is too long concern
  // that file, and a deleted cache can be made again.
  const int error = result.error;
  if (error != EISDIR && error != EFBIG && error != ENAMETOOLONG && error != ENOENT) {
    Pause& pause = *pause_;
    const std::scoped_lock lock(pause.mutex);
    pause.until = Clock::now() + write_pause_;
    pause.why = cannot_write(result);
  }
  log_.warn_once(fmt::format("cache write {}", result.error),
                 fmt::format("{}; kernels and tuning records are kept in memory; make room or set "
                             "ATTNJIT_CACHE_DIR to a directory of your own",
                             cannot_write(result)));
}

std::string Root::cannot_write(const base::WriteResult& result) const {
  return fmt::format("cannot write to the cache in {} ({})", path_->string(), result.message());
}

}  // namespace attnjit::cache
