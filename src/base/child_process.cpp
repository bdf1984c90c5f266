#include "base/child_process.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include "attnjit/error.hpp"
#include "base/spawn_actions.hpp"
#include "base/uninterrupted.hpp"

namespace attnjit::base {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kPause{5};    // between looks at whether a child has ended
constexpr milliseconds kSlice{200};  // of waiting; a stop of this process counts as one at most
constexpr std::chrono::seconds kKillPatience{30};  // a driver may hold a killed process for long

ProcessEnd end_of(int status) {
  if (WIFSIGNALED(status)) return {.signal = WTERMSIG(status)};
  return {.status = WEXITSTATUS(status)};
}

// Waits for the end of the child `id`, `patience` at most.
std::optional<ProcessEnd> wait_for(pid_t id, milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  for (;;) {
    int status = 0;
    const pid_t ended = ::waitpid(id, &status, WNOHANG);
    if (ended == id) return end_of(status);
    if (ended < 0 && errno == ECHILD) return ProcessEnd{.known = false};
    if (Clock::now() >= deadline) return std::nullopt;
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace

std::string ProcessEnd::message() const {
  if (!known) return "how is not known, for this process ignores SIGCHLD";
  if (signal == 0) return fmt::format("exit status {}", status);
  return fmt::format("signal {} ({})", signal, ::strsignal(signal));
}

ChildProcess::ChildProcess(const std::vector<std::string>& arguments) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw Error(ErrorKind::kInternal, fmt::format("cannot start {}: socketpair: {}",
                                                  arguments.front(), std::strerror(errno)));
  }
  socket_ = UniqueFd(ends[0]);
  const UniqueFd other(ends[1]);
  SpawnActions actions;
  actions.duplicate(other.get(), STDIN_FILENO);
  actions.duplicate(other.get(), STDOUT_FILENO);
  if (const int error = actions.spawn(id_, arguments); error != 0) {
    throw Error(ErrorKind::kInternal,
                fmt::format("cannot start {}: {}", arguments.front(), std::strerror(error)));
  }
}

ChildProcess::~ChildProcess() { finish(milliseconds(0)); }

bool ChildProcess::send(std::string_view line) {
  const std::string text = std::string(line) + '\n';
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t count = uninterrupted([&] {
      return ::send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    });
    if (count < 0) return false;
    rest.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

ChildProcess::Received ChildProcess::receive(std::string& line, milliseconds limit) {
  std::array<char, 4096> buffer;
  for (Clock::duration left = limit; !take_line(line);) {
    if (pending_.size() > kMaxLine) return Received::kEnd;
    const auto slice = std::clamp<Clock::duration>(left, Clock::duration(0), kSlice);
    const Clock::time_point begin = Clock::now();
    pollfd wanted{socket_.get(), POLLIN, 0};
    const int ready =
        ::poll(&wanted, 1, static_cast<int>(std::chrono::ceil<milliseconds>(slice).count()));
    left -= std::min(slice, Clock::now() - begin);
    if (ready == 0 && left <= Clock::duration(0)) return Received::kTimeout;
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    const ssize_t count =
        uninterrupted([&] { return ::recv(socket_.get(), buffer.data(), buffer.size(), 0); });
    if (count <= 0) return Received::kEnd;
    pending_.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return Received::kLine;
}

bool ChildProcess::take_line(std::string& line) {
  const std::size_t end = pending_.find('\n');
  if (end == std::string::npos) return false;
  line = pending_.substr(0, end);
  pending_.erase(0, end + 1);
  return true;
}

std::optional<ProcessEnd> ChildProcess::finish(milliseconds patience) {
  if (id_ < 0) return std::nullopt;
  socket_.close();
  const auto end = wait_for(id_, patience);
  if (!end) {
    ::kill(id_, SIGKILL);
    wait_for(id_, kKillPatience);
  }
  id_ = -1;
  return end;
}

void end_with_parent() { ::prctl(PR_SET_PDEATHSIG, SIGKILL); }

}  // namespace attnjit::base
