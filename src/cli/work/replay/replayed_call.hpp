#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "check/call_difference.hpp"
#include "check/call_verdict.hpp"
#include "cli/work/replay/call_runner.hpp"
#include "dump/reader.hpp"

namespace attnjit::cli {

/// The kernels that replays take in place of those that a call had.
struct KernelChoice {
  std::optional<std::string> config;
  std::optional<std::string> path;  ///< auto: those that a call would run now
  std::string arch;                 ///< empty: the call's
};

/// The kernels for a call of `origin`: its own configuration unless `choice` names another.
CallKernels kernels_for(const dump::Origin& origin, const KernelChoice& choice);

/// The outcome of running a call of a dump again.
struct ReplayedCall {
  CallRun run;
  check::CallVerdict verdict;                  ///< on the outputs of the replay
  bool returned = false;                       ///< whether the dump has outputs
  std::optional<check::CallVerdict> recorded;  ///< on those, where they have other bits
  std::vector<check::OutputDifference> differences;
  bool must_repeat = false;  ///< outputs that no atomics add up have to have the same bits

  /// Outputs of other bits that must have the same.
  std::vector<std::string> broken_repeats() const;
  bool pass() const;
};

/// Runs and judges a call on `runner`. Throws what reading, planning and compiling throw, and
/// Error(kUnsupported) for one that does not fit this machine's memory.
ReplayedCall replay_call(const dump::CallFile& file, CallRunner& runner, const KernelChoice& choice,
                         unsigned jobs);

/// Bytes of host memory that a call of `file` may take. Throws Error(kUnsupported) where it takes
/// more.
std::uint64_t memory_for(const dump::CallFile& file);

}  // namespace attnjit::cli
