#pragma once
#include <memory>

#include "cli/work/runner.hpp"
#include "cli/work/session.hpp"
#include "cli/work/workload.hpp"

namespace attnjit::cli {

/// Whether this build has the CPU executor.
#ifdef ATTNJIT_HAS_EXECUTOR
inline constexpr bool kHasExecutor = true;
#else
inline constexpr bool kHasExecutor = false;
#endif

/// Runs the kernels of `options.archs`, one architecture at most and sm_90a where none is given, on
/// the CPU, every access checked. Their configuration is what plan would say. Throws
/// Error(kUnsupported) in a build without the CPU executor. `session` must outlive it.
std::unique_ptr<Runner> make_cpu_runner(const WorkloadOptions& options, Session& session);

/// Which host compiler the CPU executor would use. Throws Error(kNoCompiler), which says what to
/// do, where none runs, and Error(kUnsupported) as above.
std::string host_compiler_id(const base::Environment& environment);

}  // namespace attnjit::cli
