#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "check/verdict.hpp"
#include "cli/cases.hpp"

namespace attnjit::cli {

/// What running a problem gave.
struct RunResult {
  check::Verdict verdict;
  bool judged = true;              ///< false: a kernel broke a rule, verdict.text says which
  std::int64_t rows = 0;           ///< judged
  std::optional<double> rough_ms;  ///< of a launch on a GPU; rough: clocks and caches as they come
  std::optional<double> seconds;   ///< on the CPU, compiling included
};

/// A place where problems are run on random inputs and judged by the reference.
class Runner {
 public:
  virtual ~Runner() = default;

  /// What it runs on, for the report.
  virtual std::string device() const = 0;

  /// Throws Error(kUnsupported) for a problem whose tensors do not fit this machine's memory, and
  /// what planning and compiling throw.
  virtual RunResult run(const Case& job, const reference::Rows& rows) = 0;

  /// What was compiled and what was found on disk so far, in words.
  virtual std::string counters() const = 0;
};

/// Which rows of a problem to judge: "all", a number, or empty for as many as the reference
/// computes in seconds.
reference::Rows choose_rows(const reference::ProblemSpec& spec, const std::string& rows);

/// Throws Error(kUnsupported) unless `copies` of the tensors of `job`, and what the reference
/// computes for `rows`, fit this machine's memory.
void check_run_memory(const Case& job, const reference::Rows& rows, int copies);

}  // namespace attnjit::cli
