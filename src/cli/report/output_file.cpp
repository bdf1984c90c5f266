#include "cli/report/output_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <system_error>

#include "attnjit/error.hpp"
#include "base/file.hpp"
#include "cli/report/exit_code.hpp"

namespace attnjit::cli {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kMode = 0666;  // the umask takes from it, as for every file of the user

// The file that `path` leads to. A new file beside a link would take the link's place.
fs::path target_of(const fs::path& path) {
  std::error_code none;
  const fs::path target = fs::canonical(path, none);
  return none ? path : target;
}

// Whether `path` is to be opened rather than replaced. /dev/stdout leads to whatever file the
// standard output goes to, of which this process holds a part only.
bool is_stream(const fs::path& path) {
  const std::string name = path.lexically_normal().string();
  if (name.starts_with("/dev/") || name.starts_with("/proc/")) return true;
  std::error_code none;
  const fs::file_status status = fs::status(path, none);
  return fs::exists(status) && !fs::is_regular_file(status);
}

fs::path directory_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

bool write_stream(const std::string& path, std::string_view bytes) {
  std::ofstream stream(path, std::ios::binary);
  stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  stream.close();
  return stream.good();
}

}  // namespace

void write_file(const std::string& path, std::string_view bytes) {
  std::string reason = "it cannot be opened, or did not take all bytes";
  if (is_stream(path)) {
    if (write_stream(path, bytes)) return;
  } else {
    const fs::path target = target_of(path);
    const base::WriteResult result = base::write_file_atomic(
        target, directory_of(target), std::as_bytes(std::span(bytes)), kMode);
    if (result.ok()) return;
    reason = result.message();
  }
  throw Error(ErrorKind::kCache,
              fmt::format("cannot write {} ({}); name a file in a directory that you can write, "
                          "with room for {} bytes",
                          path, reason, bytes.size()));
}

void expect_writable(std::string_view flag, const std::string& path) {
  const fs::path opened = is_stream(path) ? fs::path(path) : directory_of(target_of(path));
  if (::access(opened.c_str(), W_OK) == 0) return;
  usage_error("{}: cannot write {} ({}: {}); name a file in a directory that you can write", flag,
              path, opened.string(), std::strerror(errno));
}

}  // namespace attnjit::cli
