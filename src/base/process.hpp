#pragma once
#include <string>
#include <vector>

namespace attnjit::base {

/// The outcome of running a program.
struct ProcessResult {
  bool started = false;  ///< false: there is no such program, or it could not be run
  int status = -1;       ///< its exit status; 128 + the signal that ended it
  std::string output;    ///< stdout and stderr, as they came
};

/// Runs `arguments[0]`, looked up in PATH unless it has a slash, and waits for its end. No shell.
ProcessResult run_process(const std::vector<std::string>& arguments);

}  // namespace attnjit::base
