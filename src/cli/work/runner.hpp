#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "check/verdict.hpp"
#include "cli/input/cases.hpp"
#include "cli/report/console.hpp"

namespace attnjit::cli {

/// The part of a problem's results that is judged: rows of a forward, planes of a backward.
struct Sample {
  reference::Rows rows;
  reference::Planes planes;
};

/// The outcome of running a problem.
struct RunResult {
  /// The judgement of one tensor.
  struct Output {
    std::string name;
    reference::Report report;
  };

  check::Findings findings;
  bool judged = true;              ///< false: a kernel broke a rule, findings.text says which
  std::vector<Output> outputs;     ///< out, lse and maxima, or gradients
  std::optional<double> rough_ms;  ///< of a launch on a GPU; rough: clocks and caches as they come
  std::optional<double> seconds;   ///< on the CPU, compiling included
};

/// A place where problems are run on random inputs and judged by the reference.
class Runner {
 public:
  virtual ~Runner() = default;

  /// The device, for the report.
  virtual std::string device() const = 0;

  /// Throws Error(kUnsupported) for a problem whose tensors do not fit this machine's memory, and
  /// what planning and compiling throw.
  virtual RunResult run(const Case& job, const Sample& sample) = 0;

  /// Counts of kernels compiled and found on disk so far, in words.
  virtual std::string counters() const = 0;
};

/// The sample to judge. `rows`: "all", a number of query rows, or empty for as much as the
/// reference computes in seconds.
Sample choose_sample(const instance::ProblemSpec& spec, const std::string& rows);

/// Throws Error(kUnsupported) unless `copies` of the tensors of `job`, and what the reference
/// computes for `sample`, fit this machine's memory.
void check_run_memory(const Case& job, const Sample& sample, int copies);

/// Tells of reads of operands outside of their axes, a mistake of the caller's.
void note_outside_reads(const std::string& name, const instance::HostProblem& host,
                        Console& console);

/// Judges what ran on `host`.
void judge(const instance::HostProblem& host, const Sample& sample, unsigned jobs,
           RunResult& result);

}  // namespace attnjit::cli
