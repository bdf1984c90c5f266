#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.hpp"
#include "cli/report/exit_code.hpp"
#include "cli/report/tuned_problem.hpp"

/// Messages between tune and its worker process: JSON, a line each.
namespace attnjit::cli {

/// Asks the worker to tune a problem.
struct TuneRequest {
  std::string problem;              ///< its line of a manifest
  std::vector<std::string> faulty;  ///< ids of faults: configurations that must not run
};

/// The worker is about to run the kernels of a configuration, or has begun to prepare it.
struct TuneBegins {
  base::Json config;
};

/// The configuration that it began last took the device's context along.
struct TuneLost {
  std::string why;
};

/// The problem is tuned, or could not be measured.
struct TuneAnswer {
  std::optional<tuner::AnyRecord> record;   ///< nullopt: inconclusive
  std::string note;                         ///< why it is
  std::optional<std::string> why_not_kept;  ///< why `record` is not on disk; nullopt: it is
  std::vector<CandidateTime> times;
  std::size_t rejected = 0;  ///< they spill, do not load, or compute something else
  std::size_t faulty = 0;    ///< known to be, and not tried
};

/// The problem cannot be tuned; the worker says no more.
struct TuneFailure {
  std::string message;
  ExitCode code = ExitCode::kFailure;
};

using TuneMessage = std::variant<TuneBegins, TuneLost, TuneAnswer, TuneFailure>;

std::string to_line(const TuneRequest& request);
std::string to_line(const TuneMessage& message);

/// The inverse. Throw Error(kInternal) where `line` is none.
TuneRequest parse_request(std::string_view line);
TuneMessage parse_message(std::string_view line);

}  // namespace attnjit::cli
