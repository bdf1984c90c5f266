#pragma once
#include <memory>
#include <optional>

#include "cli/work/runner.hpp"
#include "cli/work/session.hpp"

namespace attnjit::cli {

/// Runs problems on the first GPU, as a caller of the library would, or on `path`. Throws
/// Error(kNoDevice) where there is no usable one. `session` must outlive it.
std::unique_ptr<Runner> make_device_runner(Session& session, std::optional<codegen::Path> path);

}  // namespace attnjit::cli
