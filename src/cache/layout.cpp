#include "cache/layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "attnjit/error.hpp"
#include "cache/entry.hpp"

namespace attnjit::cache {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".atk";
constexpr std::size_t kTagDigits = 8;
constexpr std::size_t kLockDigits = 16;

bool all_of(std::string_view text, std::string_view alphabet) {
  return !text.empty() && text.find_first_not_of(alphabet) == text.npos;
}

bool is_hex(std::string_view text, std::size_t digits) {
  return text.size() == digits && all_of(text, "0123456789abcdef");
}

}  // namespace

fs::path version_directory(const fs::path& root) { return root / fmt::format("v{}", kEntryFormat); }

std::string lock_name(std::string_view root, const base::Digest& what) {
  return fmt::format("{}-{}.lock", root, base::hex(what).substr(0, kLockDigits));
}

std::string compiler_tag(std::string_view compiler_id) {
  return base::hex(base::sha256(compiler_id)).substr(0, kTagDigits);
}

fs::path shelf(const fs::path& version, const KernelKey& key, std::string_view arch) {
  if (!all_of(arch, "abcdefghijklmnopqrstuvwxyz0123456789_")) {
    throw Error(ErrorKind::kInternal,
                fmt::format("cache: \"{}\" is not the name of an architecture", arch));
  }
  return version / "k" / arch / key.text().substr(0, 2);
}

StoredFile place(const fs::path& version, const KernelKey& key, std::string_view arch,
                 std::string_view compiler_id) {
  const std::string text = key.text();
  const std::string tag = compiler_tag(compiler_id);
  return {.path = shelf(version, key, arch) / fmt::format("{}.{}{}", text.substr(2), tag, kSuffix),
          .arch = std::string(arch),
          .key = text,
          .compiler_tag = tag};
}

std::optional<StoredFile> parse_name(const fs::path& path) {
  const std::string tail = path.stem().stem().string();
  const std::string tag = path.stem().extension().string();
  const std::string head = path.parent_path().filename().string();
  const bool named = path.extension() == kSuffix && is_hex(tail, 62) && is_hex(head, 2) &&
                     tag.size() == kTagDigits + 1 && is_hex(tag.substr(1), kTagDigits);
  if (!named) return std::nullopt;
  const base::FileStamp stamp = base::stamp_of(path).value_or(base::FileStamp{});
  return StoredFile{.path = path,
                    .arch = path.parent_path().parent_path().filename().string(),
                    .key = head + tail,
                    .compiler_tag = tag.substr(1),
                    .bytes = stamp.bytes,
                    .used = stamp.modified};
}

std::vector<fs::path> children(const fs::path& directory) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    paths.push_back(it->path());
  }
  std::ranges::sort(paths);
  return paths;
}

bool is_regular(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(fs::symlink_status(path, error));
}

}  // namespace attnjit::cache
