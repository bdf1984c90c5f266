#include <csignal>
#include <exception>
#include <iostream>

#include "attnjit/error.hpp"
#include "base/json.hpp"
#include "cli/arguments.hpp"

namespace attnjit::cli {
namespace {

ExitCode fail(const Command& command, const char* message, ExitCode code) {
  Console console(std::cout, std::cerr, command.common.json, Verbosity::kNormal);
  console.error(message);
  console.print_json({{"error", message}, {"exit", static_cast<int>(code)}});
  return code;
}

ExitCode execute(const Command& command) {
  try {
    Session session(command.common, base::process_environment(), std::cout, std::cerr);
    return command.run(session);
  } catch (const Error& error) {
    return fail(command, error.what(), exit_code(error.kind()));
  } catch (const std::exception& error) {
    return fail(command, error.what(), ExitCode::kFailure);
  }
}

int main(int argc, char** argv) {
  // Where a launcher has it ignored, the ends of child processes are lost.
  std::signal(SIGCHLD, SIG_DFL);
  const Parsed parsed = parse_arguments(argc, argv);
  ExitCode code = parsed.command ? execute(*parsed.command) : parsed.code;
  // Data that did not arrive (a full disk) must not look like success.
  if (!std::cout.flush() && code == ExitCode::kDone) code = ExitCode::kFailure;
  return static_cast<int>(code);
}

}  // namespace
}  // namespace attnjit::cli

int main(int argc, char** argv) { return attnjit::cli::main(argc, argv); }
