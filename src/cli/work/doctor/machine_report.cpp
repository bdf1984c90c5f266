#include "cli/work/doctor/machine_report.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "attnjit/error.hpp"
#include "cli/report/table.hpp"
#include "cli/work/bundle/bundle_report.hpp"
#include "cli/work/cpu_run.hpp"
#include "cli/work/doctor/directory_report.hpp"
#include "codegen/arch.hpp"
#include "cuda/device.hpp"
#include "runtime/call/counters.hpp"

namespace attnjit::cli {
namespace {

namespace fs = std::filesystem;

// Architectures that both this library and this NVRTC know.
std::string common_archs(const compiler::Nvrtc& nvrtc) {
  std::string names;
  for (const codegen::Arch& arch : codegen::archs()) {
    try {
      nvrtc.check_arch(std::string(arch.name));
      names += fmt::format("{}{}", names.empty() ? "" : " ", arch.name);
    } catch (const Error&) {
      // This NVRTC is older than the architecture, or no longer serves it.
    }
  }
  return names.empty() ? "none" : names;
}

void add_device(const cuda::DeviceInfo& device, Section& section) {
  section.lines.push_back({fmt::format("device {}", device.ordinal),
                           fmt::format("{}, {}, {} SMs, {}, {} KiB of shared memory per block",
                                       device.name, device.arch(), device.sm_count,
                                       human_bytes(static_cast<double>(device.memory_bytes)),
                                       device.shared_memory_per_block_optin / 1024)});
  try {
    codegen::find_arch(device.arch());
  } catch (const Error& error) {
    section.advice.push_back(
        fmt::format("device {} cannot be used: {}", device.ordinal, error.what()));
  }
}

}  // namespace

Section compiler_section(Session& session) {
  Section section{"compiler", {}, {}};
  try {
    const compiler::Nvrtc& nvrtc = session.engine().compiler().nvrtc();
    section.lines = {{"NVRTC", nvrtc.path()},
                     {"version", fmt::format("{}, build {}", nvrtc.version(), nvrtc.id())},
                     {"compiles for", common_archs(nvrtc)}};
  } catch (const Error& error) {
    section.lines = {{"NVRTC", "not found"}};
    section.advice = {error.what()};
  }
  return section;
}

Section executor_section(Session& session) {
  Section section{"CPU executor", {}, {}};
  try {
    section.lines = {{"host compiler", host_compiler_id(session.environment())}};
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kUnsupported) {
      section.lines = {{"host compiler", "not needed: this build has no CPU executor"}};
    } else {
      section.lines = {{"host compiler", "not found"}};
      section.advice = {error.what()};
    }
  }
  return section;
}

Section driver_section(Session& session) {
  Section section{"devices", {}, {}};
  try {
    const cuda::Driver& driver = session.driver();
    const int version = driver.driver_version();
    section.lines.push_back(
        {"driver", fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10)});
    for (const cuda::DeviceInfo& device : cuda::devices(driver)) add_device(device, section);
  } catch (const Error& error) {
    section.lines = {{"driver", "none that can be used"}};
    section.advice = {error.what()};
  }
  return section;
}

Section cache_section(Session& session) {
  Section section{"cache", {}, {}};
  const base::Environment& environment = session.environment();
  if (!environment.cache_directory) {
    section.lines.push_back({"directory", "none: kernels are kept in memory only"});
    section.advice.push_back(environment.cache_trouble.value_or(
        "every process compiles the kernels that are in no bundle; set ATTNJIT_CACHE_DIR to a "
        "directory of your own"));
  } else {
    const fs::path root = *session.engine().cache().store().root();
    const DirectoryReport report = inspect_directory(root);
    section.lines.push_back({"directory", report.text});
    if (!report.usable) {
      section.advice.push_back(
          fmt::format("kernels cannot be kept in {}: {}; set "
                      "ATTNJIT_CACHE_DIR to a directory of your own",
                      root.string(), report.trouble));
    }
    double bytes = 0;
    const auto files = session.engine().cache().store().list();
    for (const cache::StoredFile& file : files) bytes += static_cast<double>(file.bytes);
    section.lines.push_back({"kernels", fmt::format("{}, {}", files.size(), human_bytes(bytes))});
    section.lines.push_back(
        {"tuning records", fmt::to_string(session.engine().records().list().size())});
  }
  const DirectoryReport locks = inspect_directory(environment.lock_directory);
  section.lines.push_back({"locks", locks.text});
  if (!locks.usable) {
    section.advice.push_back(
        fmt::format("two processes may compile the same kernel: the lock "
                    "directory {} cannot be used ({}); set XDG_RUNTIME_DIR to "
                    "a directory of your own",
                    environment.lock_directory.string(), locks.trouble));
  }
  return section;
}

Section bundle_section(Session& session) {
  Section section{"bundles", {}, {}};
  const cache::BundlePath& bundles = session.engine().bundles();
  for (std::size_t i = 0; i < bundles.bundles().size(); ++i) {
    section.lines.push_back({fmt::format("bundle {}", i + 1), bundle_text(bundles.bundles()[i])});
  }
  for (const auto& [path, reason] : bundles.refused()) {
    section.lines.push_back({"not used", fmt::format("{}: {}", path.string(), reason)});
    section.advice.push_back(
        fmt::format("{} of ATTNJIT_BUNDLE_PATH is not used: {}; install the bundle again, or "
                    "correct its name or permissions",
                    path.string(), reason));
  }
  if (section.lines.empty()) section.lines.push_back({"bundles", "none"});
  return section;
}

Section environment_section(Session& session) {
  Section section{"environment", {}, session.environment().notes};
  for (const auto& [name, value] : base::describe(session.environment())) {
    section.lines.push_back({name, value});
  }
  return section;
}

Section counter_section(Session& session) {
  Section section{"counters", {}, {}};
  const Counters counters = runtime::counters(session.engine());
  base::for_each_field(counters, [&](const char* name, const auto& value) {
    section.lines.push_back({name, fmt::to_string(value)});
  });
  return section;
}

}  // namespace attnjit::cli
