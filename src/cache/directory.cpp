#include "cache/directory.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/uninterrupted.hpp"
#include "cache/private_group.hpp"

namespace attnjit::cache {
namespace {

std::optional<std::string> broken_rule(const struct stat& status) {
  if (S_ISLNK(status.st_mode)) return "it is a symbolic link";
  if (status.st_uid != ::geteuid() && status.st_uid != 0) return "it belongs to another user";
  if ((status.st_mode & S_IWOTH) != 0) return "everyone may write to it";
  if ((status.st_mode & S_IWGRP) != 0 && !is_private_group(status.st_uid, status.st_gid)) {
    return "its group may write to it (chmod g-w takes that away)";
  }
  return std::nullopt;
}

}  // namespace

std::filesystem::path normal_form(const std::filesystem::path& path) {
  const std::filesystem::path normal = path.lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

std::optional<std::string> why_untrusted(const std::filesystem::path& path) {
  struct stat status;
  return ::lstat(path.c_str(), &status) == 0 ? broken_rule(status) : std::nullopt;
}

base::UniqueFd open_trusted(const std::filesystem::path& path) {
  base::UniqueFd fd(base::uninterrupted(
      [&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC); }));
  struct stat status;
  const bool fit = fd && ::fstat(fd.get(), &status) == 0 && !broken_rule(status);
  return fit ? std::move(fd) : base::UniqueFd();
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
