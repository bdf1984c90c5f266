#include "cache/sweep.hpp"

#include <chrono>
#include <system_error>

#include "base/temporary_name.hpp"
#include "cache/layout.hpp"

namespace attnjit::cache {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::hours kPatience(1);

}  // namespace

std::vector<fs::path> abandoned_files(const fs::path& temporary, base::FileTime now) {
  std::vector<fs::path> abandoned;
  for (const fs::path& path : children(temporary)) {
    const auto writer = base::writer_of(path.filename().string());
    const auto stamp = base::stamp_of(path);
    if (!writer || !stamp) continue;
    if (stamp->modified < now - kPatience || base::has_ended(*writer)) abandoned.push_back(path);
  }
  return abandoned;
}

std::size_t sweep(const fs::path& temporary, base::FileTime now) {
  std::size_t removed = 0;
  std::error_code ignored;
  for (const fs::path& path : abandoned_files(temporary, now)) {
    if (fs::remove(path, ignored)) ++removed;
  }
  return removed;
}

}  // namespace attnjit::cache
