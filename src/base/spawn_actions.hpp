#pragma once
#include <spawn.h>
#include <sys/types.h>

#include <string>
#include <vector>

namespace attnjit::base {

/// Steps that a child process takes before it runs its program.
class SpawnActions {
 public:
  SpawnActions();
  ~SpawnActions();
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;

  void open_null(int fd);
  void duplicate(int from, int to);

  /// Starts `arguments[0]`, looked up in PATH unless it has a slash; `child` gets its id. 0, or the
  /// errno of what failed.
  int spawn(pid_t& child, const std::vector<std::string>& arguments) const;

 private:
  posix_spawn_file_actions_t actions_;
};

}  // namespace attnjit::base
