#pragma once
#include "cli/work/compile_sweep.hpp"

namespace attnjit::cli {

/// Writes what became of each kernel, as a table or as JSON, and the errors. Returns how it went.
ExitCode report_sweep(const Sweep& sweep, Session& session);

}  // namespace attnjit::cli
