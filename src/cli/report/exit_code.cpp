#include "cli/report/exit_code.hpp"

#include <algorithm>
#include <new>

namespace attnjit::cli {

ExitCode exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidProblem:
    case ErrorKind::kInvalidEnvironment:
      return ExitCode::kUsage;
    case ErrorKind::kUnsupported:
      return ExitCode::kUnsupported;
    case ErrorKind::kNoCompiler:
      return ExitCode::kNoCompiler;
    case ErrorKind::kNoDevice:
      return ExitCode::kNoDevice;
    case ErrorKind::kCompile:
    case ErrorKind::kCuda:
    case ErrorKind::kCache:
    case ErrorKind::kInternal:
      break;
  }
  return ExitCode::kFailure;
}

Failure failure_of(const std::exception& error) {
  if (const auto* const known = dynamic_cast<const Error*>(&error)) {
    return {known->what(), exit_code(known->kind())};
  }
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return {"out of memory; free some, or use fewer threads (ATTNJIT_JOBS)", ExitCode::kFailure};
  }
  return {error.what(), ExitCode::kFailure};
}

ExitCode combine(std::span<const ExitCode> entries) {
  const auto is = [](ExitCode code) { return [code](ExitCode entry) { return entry == code; }; };
  if (std::ranges::all_of(entries, is(ExitCode::kDone))) return ExitCode::kDone;
  if (std::ranges::any_of(entries, is(ExitCode::kVerification))) return ExitCode::kVerification;
  if (std::ranges::all_of(entries, is(entries.front()))) return entries.front();
  return ExitCode::kSomeFailed;
}

}  // namespace attnjit::cli
