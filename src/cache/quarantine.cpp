#include "cache/quarantine.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cache/directory.hpp"

namespace attnjit::cache {
namespace {

namespace fs = std::filesystem;

std::string name_of(const StoredFile& file, base::FileTime now) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(now).time_since_epoch().count();
  return fmt::format("{:011}.{}.{}.{}.atk", seconds, file.arch, file.key, file.compiler_tag);
}

constexpr std::string_view kLetters = "0123456789abcdefghijklmnopqrstuvwxyz_";  // of names

/// Whether name_of() may have made `name`.
bool is_name_of(std::string_view name) {
  // Takes a part of the name and the dot behind it; a part of no given size has one character or
  // more.
  const auto takes = [&name](std::size_t letters, std::size_t size) {
    const std::string_view part = name.substr(0, name.find('.'));
    name.remove_prefix(std::min(part.size() + 1, name.size()));
    return (size == 0 ? !part.empty() : part.size() == size) &&
           part.find_first_not_of(kLetters.substr(0, letters)) == part.npos;
  };
  constexpr std::size_t kDecimal = 10, kHex = 16;
  return takes(kDecimal, 11) && takes(kLetters.size(), 0) && takes(kHex, 64) && takes(kHex, 8) &&
         name == "atk";
}

/// Keeps the last `count` of the names that name_of() makes, in the order of their times.
void keep_last(int directory, std::size_t count) {
  const std::unique_ptr<DIR, int (*)(DIR*)> names(
      ::fdopendir(::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)), ::closedir);
  std::vector<std::string> held;
  while (const dirent* const each = names ? ::readdir(names.get()) : nullptr) {
    if (is_name_of(each->d_name)) held.emplace_back(each->d_name);
  }
  std::ranges::sort(held);
  for (std::size_t i = 0; i + count < held.size(); ++i) ::unlinkat(directory, held[i].c_str(), 0);
}

}  // namespace

void quarantine(const StoredFile& file, const base::FileStamp& stamp, const fs::path& directory,
                base::FileTime now) {
  if (make_private_directories(directory) != 0) return;
  const base::UniqueFd open = open_trusted(directory);
  // Another process may have put a good entry there meanwhile.
  if (!open || base::stamp_of(file.path) != stamp) return;
  ::renameat(AT_FDCWD, file.path.c_str(), open.get(), name_of(file, now).c_str());
  keep_last(open.get(), kQuarantinedFiles);
}

void empty_quarantine(const fs::path& directory) {
  if (const base::UniqueFd open = open_trusted(directory)) keep_last(open.get(), 0);
}

}  // namespace attnjit::cache
