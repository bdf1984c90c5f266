#include "base/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <optional>

#include "base/temporary_name.hpp"
#include "base/uninterrupted.hpp"

namespace attnjit::base {
namespace {

/// While it lives, exceeding RLIMIT_FSIZE is an error (EFBIG) on this thread and not the SIGXFSZ
/// that ends the process.
class FileSizeSignalBlock {
 public:
  FileSizeSignalBlock() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGXFSZ) == 1;
    pthread_sigmask(SIG_BLOCK, &signal_, &previous_);
  }
  ~FileSizeSignalBlock() {
    const int saved_errno = errno;
    // One that our write raised would be delivered on unblocking: take it away.
    const timespec no_wait{};
    if (!was_pending_) sigtimedwait(&signal_, nullptr, &no_wait);
    pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
    errno = saved_errno;
  }
  FileSizeSignalBlock(const FileSizeSignalBlock&) = delete;
  FileSizeSignalBlock& operator=(const FileSizeSignalBlock&) = delete;

 private:
  sigset_t signal_;
  sigset_t previous_;
  bool was_pending_;
};

UniqueFd open_file(const std::filesystem::path& path, int flags, mode_t mode = 0) {
  return UniqueFd(
      uninterrupted([&] { return ::open(path.c_str(), flags | O_NOFOLLOW | O_CLOEXEC, mode); }));
}

/// Of what a file may be dated beyond the range of FileTime, the closest in it, to the second.
FileTime to_file_time(const timespec& time) {
  using Seconds = std::chrono::seconds;
  constexpr auto kMost = std::chrono::floor<Seconds>(FileTime::duration::max()) - Seconds(1);
  const Seconds seconds = std::clamp(Seconds(time.tv_sec), -kMost, kMost);
  return FileTime(seconds + std::chrono::nanoseconds(time.tv_nsec));
}

timespec to_timespec(FileTime time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  return {static_cast<time_t>(seconds.time_since_epoch().count()),
          static_cast<long>(std::chrono::nanoseconds(time - seconds).count())};
}

FileStamp to_stamp(const struct stat& status) {
  return {status.st_dev, status.st_ino, static_cast<std::uint64_t>(status.st_size),
          to_file_time(status.st_mtim)};
}

std::optional<std::vector<std::byte>> read_all(int fd, std::size_t size) {
  std::vector<std::byte> bytes(size);
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got = uninterrupted([&] { return ::read(fd, bytes.data() + done, size - done); });
    if (got < 0) return std::nullopt;
    if (got == 0) break;  // it shrank since fstat
    done += static_cast<std::size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

std::optional<std::vector<std::byte>> read_file_if(const std::filesystem::path& path,
                                                   std::uint64_t max_bytes,
                                                   bool (*acceptable)(const struct stat&),
                                                   FileStamp* stamp) {
  const UniqueFd fd = open_file(path, O_RDONLY | O_NONBLOCK);
  if (!fd) return std::nullopt;
  struct stat status;
  if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  if (static_cast<std::uint64_t>(status.st_size) > max_bytes) return std::nullopt;
  if (!acceptable(status)) return std::nullopt;
  if (stamp != nullptr) *stamp = to_stamp(status);
  return read_all(fd.get(), static_cast<std::size_t>(status.st_size));
}

bool is_private(const struct stat& status) {
  const bool ours = status.st_uid == ::geteuid() || status.st_uid == 0;
  return ours && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

WriteResult failed(const char* step) { return {errno, step}; }

}  // namespace

UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

UniqueFd::~UniqueFd() { close(); }

int UniqueFd::close() {
  const int fd = std::exchange(fd_, -1);
  // One that a signal interrupts has closed, on Linux.
  return fd >= 0 && ::close(fd) != 0 && errno != EINTR ? errno : 0;
}

std::optional<std::vector<std::byte>> read_regular_file(const std::filesystem::path& path,
                                                        std::uint64_t max_bytes) {
  return read_file_if(
      path, max_bytes, [](const struct stat&) { return true; }, nullptr);
}

std::optional<std::vector<std::byte>> read_private_file(const std::filesystem::path& path,
                                                        std::uint64_t max_bytes, FileStamp* stamp) {
  return read_file_if(path, max_bytes, is_private, stamp);
}

std::optional<FileStamp> stamp_of(const std::filesystem::path& path) {
  struct stat status;
  if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return to_stamp(status);
}

void set_modified(const std::filesystem::path& path, FileTime time) {
  const timespec value = to_timespec(time);
  const timespec times[2] = {value, value};
  ::utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW);
}

std::string WriteResult::message() const {
  return ok() ? "written" : fmt::format("{}: {}", step, std::strerror(error));
}

AtomicFile::AtomicFile(std::filesystem::path path, const std::filesystem::path& temporary,
                       unsigned mode)
    : path_(std::move(path)),
      unfinished_(temporary / temporary_name()),
      fd_(open_file(unfinished_, O_WRONLY | O_CREAT | O_EXCL, mode)) {
  if (!fd_) result_ = failed("open");
}

AtomicFile::~AtomicFile() {
  if (fd_) ::unlink(unfinished_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  const FileSizeSignalBlock block;
  while (result_.ok() && !bytes.empty()) {
    const ssize_t put =
        uninterrupted([&] { return ::write(fd_.get(), bytes.data(), bytes.size()); });
    if (put < 0) {
      result_ = failed("write");
    } else {
      bytes = bytes.subspan(static_cast<std::size_t>(put));
    }
  }
}

WriteResult AtomicFile::finish() {
  if (!fd_) return result_;
  if (result_.ok() && uninterrupted([&] { return ::fsync(fd_.get()); }) != 0) {
    result_ = failed("fsync");
  }
  if (const int error = fd_.close(); result_.ok() && error != 0) result_ = {error, "close"};
  if (result_.ok() && ::rename(unfinished_.c_str(), path_.c_str()) != 0) result_ = failed("rename");
  if (!result_.ok()) ::unlink(unfinished_.c_str());
  return result_;
}

WriteResult write_file_atomic(const std::filesystem::path& path,
                              const std::filesystem::path& temporary,
                              std::span<const std::byte> bytes, unsigned mode) {
  AtomicFile file(path, temporary, mode);
  file.write(bytes);
  return file.finish();
}

WriteResult sync_directory(const std::filesystem::path& directory) {
  const UniqueFd fd(
      uninterrupted([&] { return ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (!fd) return failed("open");
  // EINVAL: a file system whose directories need no such thing.
  const bool synced = uninterrupted([&] { return ::fsync(fd.get()); }) == 0 || errno == EINVAL;
  return synced ? WriteResult{} : failed("fsync");
}

WriteResult append_line(const std::filesystem::path& path, std::string_view line) {
  const FileSizeSignalBlock block;
  UniqueFd fd = open_file(path, O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK, S_IRUSR | S_IWUSR);
  if (!fd) return failed("open");
  const std::string whole = fmt::format("{}\n", line);
  const ssize_t put = uninterrupted([&] { return ::write(fd.get(), whole.data(), whole.size()); });
  if (put < 0) return failed("write");
  if (static_cast<std::size_t>(put) != whole.size()) return {ENOSPC, "write"};
  if (const int error = fd.close(); error != 0) return {error, "close"};
  return {};
}

}  // namespace attnjit::base
