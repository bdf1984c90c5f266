#pragma once
#include <string>

#include "attnjit/context.hpp"
#include "check/verdict.hpp"
#include "cli/cases.hpp"
#include "cuda/driver.hpp"

namespace attnjit::cli {

/// Which rows of a problem to judge: "all", a number, or empty for as many as the reference
/// computes in seconds.
reference::Rows choose_rows(const reference::ProblemSpec& spec, const std::string& rows);

/// What a problem did on the device.
struct DeviceRun {
  check::Verdict verdict;
  std::int64_t rows = 0;   ///< judged
  float milliseconds = 0;  ///< median of a few launches; rough: clocks and caches as they come
};

/// Runs `job` once on the current device, times a few more launches, and judges the first one's
/// results on `jobs` threads. Throws Error(kUnsupported) for a problem whose tensors do not fit
/// this machine's memory.
DeviceRun run_on_device(const Case& job, const reference::Rows& rows, const cuda::Driver& driver,
                        Context& context, unsigned jobs);

}  // namespace attnjit::cli
