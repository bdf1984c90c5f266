#include "base/spawn_actions.hpp"

#include <fcntl.h>
#include <unistd.h>

extern char** environ;

namespace attnjit::base {

SpawnActions::SpawnActions() { posix_spawn_file_actions_init(&actions_); }

SpawnActions::~SpawnActions() { posix_spawn_file_actions_destroy(&actions_); }

void SpawnActions::open_null(int fd) {
  posix_spawn_file_actions_addopen(&actions_, fd, "/dev/null", O_RDONLY, 0);
}

void SpawnActions::duplicate(int from, int to) {
  posix_spawn_file_actions_adddup2(&actions_, from, to);
}

int SpawnActions::spawn(pid_t& child, const std::vector<std::string>& arguments) const {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  return posix_spawnp(&child, argv[0], &actions_, nullptr, argv.data(), environ);
}

}  // namespace attnjit::base
