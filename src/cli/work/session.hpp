#pragma once
#include <memory>
#include <optional>
#include <ostream>
#include <vector>

#include "base/environment.hpp"
#include "cli/report/console.hpp"
#include "cuda/driver.hpp"
#include "runtime/load/engine.hpp"

namespace attnjit::cli {

/// Flags that every verb has.
struct CommonOptions {
  bool json = false;
  bool quiet = false;
  bool verbose = false;
  std::optional<unsigned> jobs;  ///< ATTNJIT_JOBS
};

/// The state that verbs share. Engine and driver come into being when a verb first asks for them,
/// so that no verb needs more than it uses.
class Session {
 public:
  /// `environment` is the process's; flags of `options` win over it.
  Session(const CommonOptions& options, base::Environment environment, std::ostream& out,
          std::ostream& err);

  Console& console() { return console_; }
  Verbosity verbosity() const { return console_.verbosity(); }
  const base::Environment& environment() const { return environment_; }

  runtime::Engine& engine();

  /// Throws Error(kNoDevice) where there is no usable GPU.
  const cuda::Driver& driver();

  /// The kinds of device here, as tuning records name them; none without a usable GPU, or where the
  /// environment lets no record be read.
  std::vector<tuner::DeviceClass> device_classes();

  /// Every kind of device that there are tuning records of, in the cache directory, in bundles or
  /// in the library; none where the environment lets no record be read.
  std::vector<tuner::DeviceClass> recorded_devices();

  /// The tuning records of the cache directory alone: no others answer for them.
  tuner::RecordStore records_on_disk();

  /// The sink of a log.
  base::Log::Sink log_sink();

  /// Compiler::likely_id(), or "" where there is no NVRTC: what the cache asks for as well.
  std::string compiler_id();

 private:
  Console console_;
  base::Environment environment_;
  std::unique_ptr<runtime::Engine> engine_;
  std::shared_ptr<const cuda::Driver> driver_;
};

}  // namespace attnjit::cli
