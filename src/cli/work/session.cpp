#include "cli/work/session.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "attnjit/error.hpp"
#include "cli/report/exit_code.hpp"
#include "runtime/load/plan_loader.hpp"

namespace attnjit::cli {
namespace {

Verbosity verbosity_of(const CommonOptions& options) {
  if (options.quiet) return Verbosity::kQuiet;
  return options.verbose ? Verbosity::kVerbose : Verbosity::kNormal;
}

base::Environment with_flags(base::Environment environment, const CommonOptions& options) {
  if (options.jobs) environment.jobs = *options.jobs;
  if (options.quiet) environment.log_level = base::LogLevel::kError;
  if (options.verbose) environment.log_level = base::LogLevel::kInfo;
  return environment;
}

}  // namespace

Session::Session(const CommonOptions& options, base::Environment environment, std::ostream& out,
                 std::ostream& err)
    : console_(out, err, options.json, verbosity_of(options)),
      environment_(with_flags(std::move(environment), options)) {}

runtime::Engine& Session::engine() {
  if (!engine_) engine_ = std::make_unique<runtime::Engine>(environment_, log_sink());
  return *engine_;
}

const cuda::Driver& Session::driver() {
  if (!driver_) driver_ = cuda::Driver::load();
  return *driver_;
}

std::vector<tuner::DeviceClass> Session::device_classes() {
  std::vector<tuner::DeviceClass> classes;
  if (environment_.autotune == base::AutotuneMode::kOff) return classes;
  try {
    for (const cuda::DeviceInfo& device : cuda::devices(driver())) {
      classes.push_back(runtime::device_class(device));
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNoDevice) throw;
  }
  return classes;
}

std::vector<tuner::DeviceClass> Session::recorded_devices() {
  std::vector<tuner::DeviceClass> devices;
  if (environment_.autotune == base::AutotuneMode::kOff) return devices;
  const tuner::RecordStore& store = engine().records();
  std::vector<tuner::AnyRecord> records = store.list();
  std::ranges::move(store.list_bundled(), std::back_inserter(records));
  std::ranges::move(store.list_shipped(), std::back_inserter(records));
  for (const tuner::AnyRecord& record : records) {
    const tuner::DeviceClass& device = device_of(record);
    if (std::ranges::find(devices, device) == devices.end()) devices.push_back(device);
  }
  return devices;
}

tuner::RecordStore Session::records_on_disk() {
  return tuner::RecordStore(environment_.cache_directory, environment_.lock_directory,
                            engine().log());
}

base::Log::Sink Session::log_sink() {
  return [this](base::LogLevel level, std::string_view message) {
    console_.note("attnjit: {}{}", level == base::LogLevel::kWarning ? "warning: " : "", message);
  };
}

std::string Session::compiler_id() {
  try {
    return engine().compiler().likely_id();
  } catch (const Error&) {
    return "";
  }
}

}  // namespace attnjit::cli
