#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.hpp"

namespace attnjit::base {

enum class AutotuneMode { kOn, kCached, kForce, kRequire, kOff };
enum class JitPolicy { kAllow, kWarn, kForbid };

/// ATTNJIT_DUMP_CALLS: calls that are kept whole.
struct CallDumps {
  std::filesystem::path directory;  ///< absolute
  std::uint64_t calls = 8;          ///< the first ones of a context, at least 1
};

/// The settings of the environment, checked, with every rule of precedence applied.
struct Environment {
  bool disable_autotune = false;
  AutotuneMode autotune = AutotuneMode::kOn;  ///< kOff whenever disable_autotune
  JitPolicy jit = JitPolicy::kAllow;
  std::optional<std::filesystem::path> cache_directory;  ///< absolute; nullopt: memory only
  std::optional<std::string> cache_trouble;  ///< why there is none, unless that was asked for
  std::filesystem::path lock_directory;      ///< on this node; may not exist yet
  std::uint64_t cache_max_bytes = std::uint64_t{2} << 30;  ///< 0: no limit
  std::vector<std::filesystem::path> bundle_path;
  std::optional<std::filesystem::path> record_file;
  std::optional<CallDumps> call_dumps;
  std::optional<std::filesystem::path> nvrtc_path;
  std::string host_compiler;  ///< of the CPU executor; empty: the first that runs
  std::vector<std::filesystem::path> cuda_directories;  ///< of CONDA_PREFIX, CUDA_PATH, CUDA_HOME
  std::optional<std::filesystem::path> template_directory;
  std::optional<std::filesystem::path> dump_directory;
  unsigned jobs = 1;  ///< threads, at least 1
  LogLevel log_level = LogLevel::kWarning;
  std::vector<std::string> notes;  ///< what was overridden or ignored, a sentence each
};

/// The value of a variable, or nullopt where it is not set.
using Lookup = std::function<std::optional<std::string>(const char* name)>;

/// Reads every variable through `lookup`. A variable set to nothing counts as not set.
/// Throws Error(kInvalidEnvironment) naming the variable, its value and the accepted values.
Environment parse_environment(const Lookup& lookup);

/// parse_environment() of this process: the one place that calls getenv. A program with other
/// rights than its user's (setuid) has no variables: they could name libraries that it would load.
Environment process_environment();

/// `path`, which `name` (a variable or an option) holds, made absolute: a later chdir() must not
/// move it. Throws Error(kInvalidEnvironment) where it is relative and the working directory is
/// gone.
std::filesystem::path absolute_path(const char* name, const std::filesystem::path& path);

/// The system's directory for temporary files, also where TMPDIR names none.
std::filesystem::path temporary_directory();

/// Variable and effective value, for people; one pair per variable, in a fixed order.
std::vector<std::pair<std::string, std::string>> describe(const Environment& environment);

}  // namespace attnjit::base
