#pragma once
#include <chrono>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/child_process.hpp"
#include "cli/work/tune/tune_messages.hpp"

namespace attnjit::cli {

/// The time that a worker may say nothing before it counts as hung.
struct TuneLimits {
  std::chrono::milliseconds prepare = std::chrono::minutes(30);  ///< compiling all candidates
  std::chrono::milliseconds first = std::chrono::minutes(5);     ///< configuration 0
  std::chrono::milliseconds least = std::chrono::seconds(20);    ///< any other, at least
  int factor = 20;  ///< and that many times as long as configuration 0 took
};

/// A configuration that ended the worker.
struct BrokenConfig {
  base::Json config;  ///< its tunables
  std::string why;
};

/// The process that runs candidates in the place of this one, which no hang, crash or lost context
/// of theirs then reaches. Started when first needed, and again after each end. Not thread-safe.
class TuneWorker {
 public:
  using Outcome = std::variant<TuneAnswer, BrokenConfig, TuneFailure>;

  /// `command`: a program that answers requests (serve_tuning()), and its arguments.
  explicit TuneWorker(std::vector<std::string> command, const TuneLimits& limits = {});

  /// Has the worker tune a problem. BrokenConfig: the candidate that ran hung, or ended the worker
  /// or its context; ask again and have it left out. Where configuration 0 did so, where the worker
  /// ended before any ran, or was told to end from outside, it is a TuneFailure.
  Outcome tune(const TuneRequest& request);

 private:
  class Attempt;

  const std::vector<std::string> command_;
  const TuneLimits limits_;
  std::unique_ptr<base::ChildProcess> process_;
};

}  // namespace attnjit::cli
