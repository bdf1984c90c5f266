#include "cache/quarantine.hpp"

#include <fmt/format.h>

#include <chrono>
#include <system_error>
#include <vector>

#include "cache/directory.hpp"

namespace attnjit::cache {

namespace fs = std::filesystem;

void quarantine(const StoredFile& file, const base::FileStamp& stamp, const fs::path& directory,
                base::FileTime now) {
  if (make_private_directories(directory) != 0) return;
  const auto seconds = std::chrono::floor<std::chrono::seconds>(now).time_since_epoch().count();
  const std::string name =
      fmt::format("{:011}.{}.{}.{}.atk", seconds, file.arch, file.key, file.compiler_tag);
  // Another process may have put a good entry there meanwhile.
  if (base::stamp_of(file.path) != stamp) return;
  std::error_code ignored;
  fs::rename(file.path, directory / name, ignored);
  const std::vector<fs::path> held = children(directory);  // by name, so oldest first
  for (std::size_t i = 0; i + kQuarantinedFiles < held.size(); ++i) fs::remove(held[i], ignored);
}

}  // namespace attnjit::cache
