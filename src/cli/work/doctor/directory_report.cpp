#include "cli/work/doctor/directory_report.hpp"

#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "cache/directory.hpp"

namespace attnjit::cli {
namespace {

namespace fs = std::filesystem;

std::string user_name(uid_t user) {
  std::array<char, 4096> text;
  passwd record;
  passwd* found = nullptr;
  ::getpwuid_r(user, &record, text.data(), text.size(), &found);
  return found != nullptr ? found->pw_name : fmt::format("uid {}", user);
}

// `path`, or the closest directory above it that exists.
fs::path existing_part(fs::path path) {
  std::error_code error;
  while (!fs::exists(fs::symlink_status(path, error)) && path.has_relative_path()) {
    path = path.parent_path();
  }
  return path;
}

std::string why_unusable(const fs::path& path, const fs::path& existing) {
  std::error_code error;
  if (!fs::is_directory(existing, error)) {
    return fmt::format("{} is not a directory", existing.string());
  }
  if (::access(existing.c_str(), W_OK | X_OK) != 0) {
    return fmt::format("{} is not writable for {}", existing.string(), user_name(::geteuid()));
  }
  if (existing != path) return "";
  return cache::why_untrusted(path).value_or("");
}

}  // namespace

DirectoryReport inspect_directory(const fs::path& path) {
  const fs::path existing = existing_part(path);
  DirectoryReport report;
  report.trouble = why_unusable(path, existing);
  report.usable = report.trouble.empty();
  const std::string state = report.usable ? "writable" : report.trouble;
  struct stat status {};
  if (existing == path && ::stat(path.c_str(), &status) == 0) {
    report.text = fmt::format("{} (owner {}, {})", path.string(), user_name(status.st_uid), state);
  } else {
    report.text = fmt::format("{} (not there yet, {})", path.string(),
                              report.usable ? "can be created" : state);
  }
  return report;
}

}  // namespace attnjit::cli
