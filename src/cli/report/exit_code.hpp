#pragma once
#include <fmt/format.h>

#include <exception>
#include <span>
#include <string>
#include <utility>

#include "attnjit/error.hpp"

namespace attnjit::cli {

/// The exit status of the process.
enum class ExitCode : int {
  kDone = 0,
  kFailure = 1,       ///< internal or I/O error
  kUsage = 2,         ///< flags, manifest or environment hold what they must not
  kSomeFailed = 3,    ///< some of several entries failed; the report lists them
  kVerification = 4,  ///< a wrong result, or a missing or damaged cache entry
  kUnsupported = 5,   ///< a sound problem or architecture that this build cannot serve
  kNoCompiler = 6,
  kNoDevice = 7,
};

ExitCode exit_code(ErrorKind kind);

/// An error that ends a task: a message for people, and its exit code.
struct Failure {
  std::string message;
  ExitCode code;
};
Failure failure_of(const std::exception& error);

/// The code for a run over several entries: a wrong result outweighs all else; entries that all
/// failed alike give their own code; otherwise some failed.
ExitCode combine(std::span<const ExitCode> entries);

/// Throws the Error that ends the process with ExitCode::kUsage.
template <class... Args>
[[noreturn]] void usage_error(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(ErrorKind::kInvalidEnvironment, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace attnjit::cli
