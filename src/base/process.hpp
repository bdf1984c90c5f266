#pragma once
#include <optional>
#include <string>
#include <vector>

namespace attnjit::base {

/// The outcome of running a program.
struct ProcessResult {
  bool started = false;  ///< false: there is no such program, or it could not be run
  /// Its exit status; 128 + the signal that ended it. nullopt where the system kept neither, as
  /// where SIGCHLD is ignored.
  std::optional<int> status;
  std::string output;  ///< stdout and stderr, as they came

  /// Whether it ran, and nothing is known of a failure.
  bool may_have_succeeded() const { return started && status.value_or(0) == 0; }
};

/// Runs `arguments[0]`, looked up in PATH unless it has a slash, and waits for its end. No shell.
ProcessResult run_process(const std::vector<std::string>& arguments);

}  // namespace attnjit::base
