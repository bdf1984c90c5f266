#include "cache/store.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <set>
#include <span>
#include <utility>

#include "attnjit/error.hpp"
#include "cache/directory.hpp"

namespace attnjit::cache {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCacheTag =
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# A cache directory, see https://bford.info/cachedir/. Backups may leave it out.\n";
constexpr std::string_view kReadme =
    "Compiled attention kernels of attnjit. Everything here can be deleted at any time;\n"
    "what is needed again is compiled again.\n";

/// "dir/" and "dir" must be the same directory to lstat().
std::optional<fs::path> without_trailing_slash(std::optional<fs::path> path) {
  if (path && !path->has_filename()) path = path->parent_path();
  return path;
}

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

Store::Store(std::optional<fs::path> root, base::Log& log, std::chrono::milliseconds write_pause)
    : root_(without_trailing_slash(std::move(root))), log_(log), write_pause_(write_pause) {}

fs::path Store::version_directory() const { return cache::version_directory(*root_); }

bool Store::trusted() const {
  if (!root_) return false;
  const auto rule = why_untrusted(*root_);
  if (rule) {
    log_.warn_once("cache directory",
                   fmt::format("cache directory {} is not used: {}; kernels are kept in memory "
                               "only; set ATTNJIT_CACHE_DIR to a directory of your own",
                               root_->string(), *rule));
  }
  return !rule;
}

std::optional<Entry> Store::find(const KernelKey& key, std::string_view arch,
                                 std::string_view compiler_id) {
  if (!trusted()) return std::nullopt;
  if (!compiler_id.empty()) {
    auto entry = load(place(version_directory(), key, arch, compiler_id));
    return entry && entry->compiler_id == compiler_id ? std::move(entry) : std::nullopt;
  }
  for (const fs::path& path : children(shelf(version_directory(), key, arch))) {
    const auto file = parse_name(path);
    if (!file || file->key != key.text()) continue;
    if (auto entry = load(*file)) return entry;
  }
  return std::nullopt;
}

std::optional<Entry> Store::load(const StoredFile& file) {
  auto result = read(file);
  if (Entry* entry = std::get_if<Entry>(&result)) return std::move(*entry);
  const auto& [kind, reason] = std::get<Rejection>(result);
  if (kind == Rejection::Kind::kDamaged) note_damage(file, reason);
  return std::nullopt;
}

void Store::note_damage(const StoredFile& file, const std::string& reason) {
  {
    const std::scoped_lock lock(damaged_mutex_);
    if (!damaged_.insert(file.path).second) return;
  }
  ++corrupt_;
  log_.warning("cache entry {} is not used: {}; the kernel is built again", file.path.string(),
               reason);
}

std::variant<Entry, Rejection> Store::read(const StoredFile& file) const {
  using Kind = Rejection::Kind;
  const auto bytes = base::read_private_file(file.path, kMaxEntryBytes);
  if (!bytes) {
    return Rejection{Kind::kUnreadable, "it is not a regular file that only you can write"};
  }
  auto result = decode(*bytes);
  if (const Entry* entry = std::get_if<Entry>(&result)) {
    if (entry->key.text() != file.key) {
      return Rejection{Kind::kDamaged, "it holds another kernel than its name says"};
    }
    if (entry->arch != file.arch) {
      return Rejection{Kind::kMisplaced, fmt::format("it is for {}", entry->arch)};
    }
    if (compiler_tag(entry->compiler_id) != file.compiler_tag) {
      return Rejection{Kind::kMisplaced, "it is of another compiler than its name says"};
    }
  }
  return result;
}

void Store::publish(const Entry& entry) {
  if (!trusted()) return;
  const auto present = read(place(version_directory(), entry.key, entry.arch, entry.compiler_id));
  if (std::holds_alternative<Rejection>(present)) replace(entry);
}

std::optional<fs::path> Store::path_of(const KernelKey& key, std::string_view arch,
                                       std::string_view compiler_id) const {
  if (!root_) return std::nullopt;
  return place(version_directory(), key, arch, compiler_id).path;
}

void Store::replace(const Entry& entry) {
  if (!trusted() || std::chrono::steady_clock::now() < paused_until_.load()) return;
  const StoredFile file = place(version_directory(), entry.key, entry.arch, entry.compiler_id);
  try {
    const std::vector<std::byte> bytes = encode(entry);
    base::WriteResult result = write(file.path, bytes);
    // Someone deleted the cache meanwhile.
    if (result.error == ENOENT) result = write(file.path, bytes);
    if (!result.ok()) return note_failure(result);
  } catch (const Error& error) {
    ++write_failures_;
    return log_.warning("{}; the kernel is kept in memory only", error.what());
  }
  const std::scoped_lock lock(damaged_mutex_);
  damaged_.erase(file.path);
}

base::WriteResult Store::write(const fs::path& path, std::span<const std::byte> bytes) const {
  const fs::path temporary = version_directory() / "tmp";
  for (const fs::path& directory : {path.parent_path(), temporary}) {
    if (const int error = make_private_directories(directory); error != 0) return {error, "mkdir"};
  }
  label(*root_, temporary);
  return base::write_file_atomic(path, temporary, bytes);
}

void Store::note_failure(const base::WriteResult& result) {
  ++write_failures_;
  // A directory in an entry's place concerns that entry, and a deleted cache can be made again.
  if (result.error != EISDIR && result.error != ENOENT) {
    paused_until_ = std::chrono::steady_clock::now() + write_pause_;
  }
  log_.warn_once(fmt::format("cache write {}", result.error),
                 fmt::format("cannot write to the cache in {} ({}); kernels are kept in memory; "
                             "make room or set ATTNJIT_CACHE_DIR to a directory of your own",
                             root_->string(), result.message()));
}

std::vector<StoredFile> Store::list() const {
  std::vector<StoredFile> files;
  if (!trusted()) return files;
  for (const fs::path& arch : children(version_directory() / "k")) {
    for (const fs::path& directory : children(arch)) {
      for (const fs::path& path : children(directory)) {
        if (auto file = parse_name(path)) files.push_back(*std::move(file));
      }
    }
  }
  return files;
}

std::vector<BadEntry> Store::verify() const {
  std::vector<BadEntry> bad;
  for (const StoredFile& file : list()) {
    const auto result = read(file);
    const Rejection* rejection = std::get_if<Rejection>(&result);
    if (!rejection) continue;
    std::error_code error;
    const bool gone = !fs::exists(fs::symlink_status(file.path, error));
    if (!gone) bad.push_back({file.path, rejection->reason});
  }
  return bad;
}

std::size_t Store::clear() {
  std::error_code ignored;
  std::size_t removed = 0;
  std::set<fs::path> directories;
  for (const StoredFile& file : list()) {
    if (!is_regular(file.path) || !fs::remove(file.path, ignored)) continue;
    ++removed;
    directories.insert(file.path.parent_path());
    directories.insert(file.path.parent_path().parent_path());
  }
  if (!trusted()) return removed;
  for (const fs::path& path : children(version_directory() / "tmp")) {
    if (path.extension() == ".tmp" && is_regular(path)) fs::remove(path, ignored);
  }
  directories.insert({version_directory(), version_directory() / "k", version_directory() / "tmp"});
  // Deepest first; a directory that still holds something stays.
  for (auto it = directories.rbegin(); it != directories.rend(); ++it) fs::remove(*it, ignored);
  return removed;
}

}  // namespace attnjit::cache
