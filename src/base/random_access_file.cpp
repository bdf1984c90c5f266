#include "base/random_access_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/uninterrupted.hpp"

namespace attnjit::base {
namespace {

/// The rule that makes a file unfit to be trusted; null where there is none.
const char* why_refused(const struct stat& status) {
  if (!S_ISREG(status.st_mode)) return "it is not a regular file";
  if (status.st_uid != ::geteuid() && status.st_uid != 0) return "it belongs to another user";
  if ((status.st_mode & S_IWOTH) != 0) return "everyone may write to it";
  if ((status.st_mode & S_IWGRP) != 0) return "its group may write to it";
  return nullptr;
}

std::string why_not_opened(int error) {
  if (error == ELOOP) return "it is a symbolic link";
  const std::string reason = std::strerror(error);
  return error == EMFILE ? reason + " in this process; raise its limit (ulimit -n)" : reason;
}

}  // namespace

std::variant<RandomAccessFile, std::string> RandomAccessFile::open(
    const std::filesystem::path& path) {
  UniqueFd fd(uninterrupted(
      [&] { return ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK); }));
  if (!fd) return why_not_opened(errno);
  struct stat status;
  if (::fstat(fd.get(), &status) != 0) return std::strerror(errno);
  if (const char* const rule = why_refused(status)) return rule;
  return RandomAccessFile(std::move(fd), static_cast<std::uint64_t>(status.st_size));
}

std::optional<std::vector<std::byte>> RandomAccessFile::read(std::uint64_t offset,
                                                             std::size_t bytes) const {
  std::vector<std::byte> result(bytes);
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t got = uninterrupted([&] {
      return ::pread(fd_.get(), result.data() + done, bytes - done,
                     static_cast<off_t>(offset + done));
    });
    if (got <= 0) return std::nullopt;
    done += static_cast<std::size_t>(got);
  }
  return result;
}

}  // namespace attnjit::base
