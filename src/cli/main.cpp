#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <iostream>

#include "attnjit/error.hpp"
#include "base/json.hpp"
#include "cli/arguments.hpp"

namespace attnjit::cli {
namespace {

ExitCode report(const Command& command, const Failure& failure) {
  Console console(std::cout, std::cerr, command.common.json, Verbosity::kNormal);
  console.error(failure.message);
  console.print_json({{"error", failure.message}, {"exit", static_cast<int>(failure.code)}});
  return failure.code;
}

ExitCode execute(const Command& command) {
  try {
    Session session(command.common, base::process_environment(), std::cout, std::cerr);
    return command.run(session);
  } catch (const std::exception& error) {
    return report(command, failure_of(error));
  }
}

// Undoes what a launcher may have left: without a standard stream the next file that is opened has
// its number and gets its text, and where SIGCHLD is ignored the ends of child processes are lost.
// Writes to what stands in for a stream fail, so that lost data is still noticed.
void repair_inheritance() {
  int fd = 0;
  while (fd >= 0 && fd <= STDERR_FILENO) fd = ::open("/dev/null", O_RDONLY);
  ::close(fd);
  std::signal(SIGCHLD, SIG_DFL);
}

int main(int argc, char** argv) {
  repair_inheritance();
  const Parsed parsed = parse_arguments(argc, argv);
  ExitCode code = parsed.command ? execute(*parsed.command) : parsed.code;
  // Data that did not arrive (a full disk) must not look like success.
  if (!std::cout.flush() && code == ExitCode::kDone) code = ExitCode::kFailure;
  return static_cast<int>(code);
}

}  // namespace
}  // namespace attnjit::cli

int main(int argc, char** argv) { return attnjit::cli::main(argc, argv); }
