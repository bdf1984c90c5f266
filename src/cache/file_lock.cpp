#include "cache/file_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "base/uninterrupted.hpp"
#include "cache/directory.hpp"

namespace attnjit::cache {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kFirstPoll{5};
constexpr milliseconds kLongestPoll{50};
constexpr milliseconds kNoticeAfter{1000};

/// The lock file, or no descriptor and `why`.
base::UniqueFd open_lock_file(const std::filesystem::path& path, std::string& why) {
  const std::filesystem::path directory = path.parent_path();
  if (const int error = make_private_directories(directory); error != 0) {
    why = fmt::format("cannot create {}: {}", directory.string(), std::strerror(error));
    return {};
  }
  if (const auto rule = why_untrusted(directory)) {
    why = fmt::format("{} is not used: {}", directory.string(), *rule);
    return {};
  }
  base::UniqueFd fd(base::uninterrupted([&] {
    return ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK,
                  S_IRUSR | S_IWUSR);
  }));
  if (!fd) why = fmt::format("cannot open {}: {}", path.string(), std::strerror(errno));
  return fd;
}

/// Whether `path` leads to the file that `fd` has open.
bool leads_to(const std::filesystem::path& path, int fd) {
  struct stat named, open;
  return ::lstat(path.c_str(), &named) == 0 && ::fstat(fd, &open) == 0 &&
         named.st_dev == open.st_dev && named.st_ino == open.st_ino;
}

}  // namespace

FileLock::FileLock(const std::filesystem::path& path, milliseconds budget, base::Log& log)
    : path_(path), process_(::getpid()) {
  std::string why;
  fd_ = open_lock_file(path, why);
  const Clock::time_point begin = Clock::now();
  milliseconds poll = kFirstPoll;
  bool noticed = false;
  while (fd_) {
    if (::flock(fd_.get(), LOCK_EX | LOCK_NB) == 0) {
      if (leads_to(path, fd_.get())) {
        outcome_ = Outcome::kHeld;
        return;
      }
      fd_ = open_lock_file(path, why);  // a holder has removed it, and others wait for a new one
    } else if (errno != EWOULDBLOCK && errno != EINTR) {
      why = fmt::format("cannot lock {}: {}", path.string(), std::strerror(errno));
      break;
    }
    const auto waited = Clock::now() - begin;
    if (waited >= budget) {
      outcome_ = Outcome::kBusy;
      return;
    }
    if (waited >= kNoticeAfter && !std::exchange(noticed, true)) {
      log.warning("waiting for another process that builds the same kernel ({})", path.string());
    }
    std::this_thread::sleep_for(poll);
    poll = std::min(2 * poll, kLongestPoll);
  }
  log.warn_once("lock", fmt::format("{}; processes may build the same kernel at once", why));
}

FileLock::~FileLock() {
  if (outcome_ != Outcome::kHeld || process_ != ::getpid()) return;
  if (leads_to(path_, fd_.get())) ::unlink(path_.c_str());
  // Closing the file would not do: a child may have inherited it.
  ::flock(fd_.get(), LOCK_UN);
}

}  // namespace attnjit::cache
