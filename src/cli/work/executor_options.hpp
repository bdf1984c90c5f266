#pragma once
#include "cli/work/session.hpp"

#ifdef ATTNJIT_HAS_EXECUTOR
#include "executor/executor.hpp"

namespace attnjit::cli {

/// The executor of `session`: its host compiler, cache, templates and threads.
executor::Executor::Options executor_options(Session& session);

}  // namespace attnjit::cli

#else

namespace attnjit::cli {

/// Throws the Error(kUnsupported) of a build without the CPU executor.
[[noreturn]] void refuse_executor();

}  // namespace attnjit::cli

#endif
