#pragma once
#include "cli/work/compile_sweep.hpp"

namespace attnjit::cli {

/// Writes what became of each kernel, as a table or as JSON, and the errors. Returns how it went.
ExitCode report_sweep(const Sweep& sweep, Session& session);

/// report_sweep() of a verb for which a kernel that is not on disk afterwards has failed.
ExitCode report_kept_sweep(const Sweep& sweep, Session& session);

}  // namespace attnjit::cli
