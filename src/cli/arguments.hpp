#pragma once
#include <functional>
#include <optional>

#include "cli/report/exit_code.hpp"
#include "cli/work/session.hpp"

namespace attnjit::cli {

/// A command line, read.
struct Command {
  CommonOptions common;
  std::function<ExitCode(Session&)> run;
};

/// Reads the command line. Where that is all there is to do (--help, --version, or a mistake, which
/// it has reported), gives the exit code instead of a command.
struct Parsed {
  std::optional<Command> command;
  ExitCode code = ExitCode::kDone;
};
Parsed parse_arguments(int argc, const char* const* argv);

}  // namespace attnjit::cli
