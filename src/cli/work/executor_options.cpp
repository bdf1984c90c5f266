#include "cli/work/executor_options.hpp"

#ifdef ATTNJIT_HAS_EXECUTOR

namespace attnjit::cli {

executor::Executor::Options executor_options(Session& session) {
  const base::Environment& environment = session.environment();
  return {.compiler = environment.host_compiler,
          .cache = {.directory = environment.cache_directory,
                    .lock_directory = environment.lock_directory,
                    .limits = {.bytes = environment.cache_max_bytes}},
          .templates = session.engine().templates(),
          .jit = environment.jit,
          .jobs = environment.jobs};
}

}  // namespace attnjit::cli

#else
#include "attnjit/error.hpp"

namespace attnjit::cli {

void refuse_executor() {
  throw Error(ErrorKind::kUnsupported,
              "--on cpu: this build has no CPU executor; build with -D ATTNJIT_BUILD_EXECUTOR=ON, "
              "which needs Boost.Context (libboost-context-dev), or use --on gpu");
}

}  // namespace attnjit::cli

#endif
