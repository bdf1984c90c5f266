#include "cache/directory.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace attnjit::cache {

std::optional<std::string> why_untrusted(const std::filesystem::path& path) {
  struct stat status;
  if (::lstat(path.c_str(), &status) != 0) return std::nullopt;
  if (S_ISLNK(status.st_mode)) return "it is a symbolic link";
  if (status.st_uid != ::geteuid() && status.st_uid != 0) return "it belongs to another user";
  if ((status.st_mode & S_IWOTH) != 0) return "everyone may write to it";
  return std::nullopt;
}

int make_private_directories(const std::filesystem::path& path) {
  const auto make = [&path] { return ::mkdir(path.c_str(), S_IRWXU) == 0 ? 0 : errno; };
  int error = make();
  if (error == ENOENT && path.has_relative_path() && path.has_parent_path()) {
    error = make_private_directories(path.parent_path());
    if (error == 0) error = make();
  }
  return error == EEXIST ? 0 : error;
}

}  // namespace attnjit::cache
