#include "cache/store.hpp"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "attnjit/error.hpp"
#include "base/file.hpp"
#include "base/temporary_name.hpp"
#include "cache/eviction.hpp"
#include "cache/quarantine.hpp"
#include "cache/sweep.hpp"

namespace attnjit::cache {

namespace fs = std::filesystem;

Store::Store(std::optional<fs::path> root, base::Log& log, std::chrono::milliseconds write_pause)
    : root_(std::move(root), log, write_pause), log_(log) {}

std::optional<Entry> Store::find(const KernelKey& key, std::string_view arch,
                                 std::string_view compiler_id) {
  if (!root_.trusted()) return std::nullopt;
  if (!compiler_id.empty()) {
    auto entry = load(place(root_.version_directory(), key, arch, compiler_id));
    return entry && entry->compiler_id == compiler_id ? std::move(entry) : std::nullopt;
  }
  for (const fs::path& path : children(shelf(root_.version_directory(), key, arch))) {
    const auto file = parse_name(path);
    if (!file || file->key != key.text()) continue;
    if (auto entry = load(*file)) return entry;
  }
  return std::nullopt;
}

std::optional<Entry> Store::load(const StoredFile& file) {
  base::FileStamp stamp;
  auto result = read(file, &stamp);
  if (Entry* entry = std::get_if<Entry>(&result)) {
    const base::FileTime now = std::chrono::system_clock::now();
    const bool noted = stamp.modified >= now - kUseInterval && stamp.modified <= now + kUseInterval;
    if (!noted) base::set_modified(file.path, now);
    return std::move(*entry);
  }
  const auto& [kind, reason] = std::get<Rejection>(result);
  if (kind == Rejection::Kind::kDamaged) note_damage(file, stamp, reason);
  return std::nullopt;
}

fs::path Store::quarantine_directory() const { return root_.version_directory() / "quarantine"; }

void Store::note_damage(const StoredFile& file, const base::FileStamp& stamp,
                        const std::string& reason) {
  {
    Damaged& damaged = *damaged_;
    const std::scoped_lock lock(damaged.mutex);
    if (!damaged.files.insert(file.path).second) return;
  }
  ++corrupt_;
  log_.warning("cache entry {} is not used: {}; the kernel is built again", file.path.string(),
               reason);
  quarantine(file, stamp, quarantine_directory(), std::chrono::system_clock::now());
}

std::variant<Entry, Rejection> Store::read(const StoredFile& file, base::FileStamp* stamp) const {
  using Kind = Rejection::Kind;
  const auto bytes = base::read_private_file(file.path, kMaxEntryBytes, stamp);
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

std::optional<fs::path> Store::path_of(const KernelKey& key, std::string_view arch,
                                       std::string_view compiler_id) const {
  if (!root_.path()) return std::nullopt;
  return place(root_.version_directory(), key, arch, compiler_id).path;
}

std::optional<std::string> Store::publish(const Entry& entry) {
  if (const auto why = root_.why_unused()) return why;
  const auto present =
      read(place(root_.version_directory(), entry.key, entry.arch, entry.compiler_id));
  return std::holds_alternative<Entry>(present) ? std::nullopt : replace(entry);
}

std::optional<std::string> Store::replace(const Entry& entry) {
  if (const auto why = root_.why_unused()) return why;
  const StoredFile file =
      place(root_.version_directory(), entry.key, entry.arch, entry.compiler_id);
  try {
    if (const auto why = root_.write(file.path, encode(entry))) return why;
  } catch (const Error& error) {
    ++too_large_;
    log_.warning("{}; the kernel is kept in memory only", error.what());
    return error.what();
  }
  Damaged& damaged = *damaged_;
  const std::scoped_lock lock(damaged.mutex);
  damaged.files.erase(file.path);
  return std::nullopt;
}

std::vector<StoredFile> Store::list() const {
  std::vector<StoredFile> files;
  if (!root_.trusted()) return files;
  for (const fs::path& arch : children(root_.version_directory() / "k")) {
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
  if (!used()) return bad;
  for (const fs::path& path :
       abandoned_files(temporary_directory(), std::chrono::system_clock::now())) {
    bad.push_back({path, "it was left unfinished by a writer that is gone"});
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
  if (!root_.trusted()) return removed;
  empty_quarantine(quarantine_directory());
  for (const fs::path& path : children(temporary_directory())) {
    const bool unfinished = base::writer_of(path.filename().string()).has_value();
    if (unfinished && is_regular(path)) fs::remove(path, ignored);
  }
  directories.insert({temporary_directory(), quarantine_directory(), root_.version_directory(),
                      root_.version_directory() / "k"});
  // Deepest first; a directory that still holds something stays.
  for (auto it = directories.rbegin(); it != directories.rend(); ++it) fs::remove(*it, ignored);
  return removed;
}

}  // namespace attnjit::cache
