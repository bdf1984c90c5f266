#include "base/process.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "base/file.hpp"
#include "base/spawn_actions.hpp"
#include "base/uninterrupted.hpp"

namespace attnjit::base {
namespace {

std::string read_all(int fd) {
  std::string text;
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t count = uninterrupted([&] { return read(fd, buffer.data(), buffer.size()); });
    if (count <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& arguments) {
  ProcessResult result;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return result;
  UniqueFd out(ends[0]);
  UniqueFd in(ends[1]);

  SpawnActions actions;
  actions.open_null(STDIN_FILENO);
  actions.duplicate(in.get(), STDOUT_FILENO);
  actions.duplicate(in.get(), STDERR_FILENO);
  pid_t child = 0;
  if (actions.spawn(child, arguments) != 0) return result;
  in.close();  // or the end of the output would never come
  result.started = true;
  result.output = read_all(out.get());
  int status = 0;
  if (uninterrupted([&] { return waitpid(child, &status, 0); }) != child) return result;
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace attnjit::base
