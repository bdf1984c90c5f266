#pragma once
#include <istream>
#include <ostream>

#include "cuda/driver.hpp"
#include "runtime/load/engine.hpp"

namespace attnjit::cli {

/// Answers requests to tune (tune_messages.hpp), lines of `in`, until its end or the first failure,
/// on the first device of `driver`; ends with the process that started this one. The work of the
/// worker process.
void serve_tuning(std::istream& in, std::ostream& out, runtime::Engine& engine,
                  const cuda::Driver& driver);

}  // namespace attnjit::cli
