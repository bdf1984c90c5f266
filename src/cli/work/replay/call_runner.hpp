#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/work/planning.hpp"
#include "cli/work/session.hpp"
#include "dump/host_call.hpp"
#include "dump/origin.hpp"

namespace attnjit::cli {

/// The outcome of a call that was run again.
struct CallRun {
  std::string violation;               ///< the rule that a kernel broke, on the CPU; empty: none
  std::string config;                  ///< of the kernels, as --config reads it
  int block_q = 0, block_kv = 0;       ///< the tile of the main kernel
  std::vector<std::string> unordered;  ///< outputs that atomics add up, in any order
};

/// The kernels that calls are run with.
struct CallKernels {
  std::optional<std::string> config;  ///< a JSON object, as of --config
  std::optional<codegen::Path> path;
  std::string arch;  ///< whose kernels the CPU runs
};

/// A place where calls are run.
class CallRunner {
 public:
  virtual ~CallRunner() = default;

  /// For the report: "CPU executor", or the name of a device.
  virtual std::string device() const = 0;

  /// Whether outputs that no atomics add up have the bits that `origin` left.
  virtual bool repeats(const dump::Origin& origin) const = 0;

  /// Runs `call`, whose outputs are NaN before, and leaves them in it. Throws what planning and
  /// compiling throw.
  virtual CallRun run(dump::HostCall& call, const CallKernels& kernels) = 0;
};

/// Throws Error(kUnsupported) in a build without the CPU executor.
std::unique_ptr<CallRunner> make_cpu_call_runner(Session& session);
/// Throws Error(kNoDevice) where there is no usable GPU.
std::unique_ptr<CallRunner> make_device_call_runner(Session& session);

/// The plan of a problem with `kernels`, for `arch`.
launch::ForwardPlanSpec plan_call(Session& session, const problem::Problem& problem,
                                  const codegen::Arch& arch, const CallKernels& kernels);
launch::BackwardPlanSpec plan_call(Session& session, const problem::BackwardProblem& problem,
                                   const codegen::Arch& arch, const CallKernels& kernels);

/// What CallRun tells of a plan.
CallRun describe_run(const launch::ForwardPlanSpec& plan, const problem::Problem& problem);
CallRun describe_run(const launch::BackwardPlanSpec& plan, const problem::BackwardProblem& problem);

}  // namespace attnjit::cli
