#include "base/environment.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <span>
#include <string_view>
#include <system_error>
#include <thread>

#include "attnjit/error.hpp"
#include "base/printable.hpp"

namespace attnjit::base {
namespace {

namespace fs = std::filesystem;

template <typename T>
struct Choice {
  std::string_view text;
  T value;
};

constexpr std::array<Choice<AutotuneMode>, 5> kAutotuneModes = {
    {{"on", AutotuneMode::kOn},
     {"cached", AutotuneMode::kCached},
     {"force", AutotuneMode::kForce},
     {"require", AutotuneMode::kRequire},
     {"off", AutotuneMode::kOff}}};
constexpr std::array<Choice<JitPolicy>, 3> kJitPolicies = {
    {{"allow", JitPolicy::kAllow}, {"warn", JitPolicy::kWarn}, {"forbid", JitPolicy::kForbid}}};
constexpr std::array<Choice<LogLevel>, 4> kLogLevels = {{{"error", LogLevel::kError},
                                                         {"warn", LogLevel::kWarning},
                                                         {"info", LogLevel::kInfo},
                                                         {"debug", LogLevel::kDebug}}};
constexpr std::array<Choice<bool>, 8> kSwitch = {{{"1", true},
                                                  {"true", true},
                                                  {"yes", true},
                                                  {"on", true},
                                                  {"0", false},
                                                  {"false", false},
                                                  {"no", false},
                                                  {"off", false}}};
constexpr unsigned kMaxJobs = 1024;
constexpr std::uint64_t kMaxDumpedCalls = 1'000'000;

template <typename T, std::size_t N>
std::string_view name_of(const std::array<Choice<T>, N>& choices, T value) {
  return std::ranges::find(choices, value, &Choice<T>::value)->text;
}

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

/// Typed access to variables; every failure says which variable, which value and what would do.
class Reader {
 public:
  explicit Reader(const Lookup& lookup) : lookup_(lookup) {}

  std::optional<std::string> text(const char* name) const {
    std::optional<std::string> value = lookup_(name);
    return value && value->empty() ? std::nullopt : value;
  }

  std::optional<fs::path> path(const char* name) const {
    const auto value = text(name);
    return value ? std::optional<fs::path>(*value) : std::nullopt;
  }

  template <typename T, std::size_t N>
  T choice(const char* name, const std::array<Choice<T>, N>& choices, T fallback) const {
    const auto value = text(name);
    return value ? pick(name, *value, *value, choices) : fallback;
  }

  bool flag(const char* name) const {
    const auto value = text(name);
    return value && pick(name, *value, lower_case(*value), kSwitch);
  }

  std::uint64_t number(const char* name, std::uint64_t least, std::uint64_t most,
                       std::uint64_t fallback) const {
    const auto value = text(name);
    if (!value) return fallback;
    if (const auto number = whole_number(*value, least, most)) return *number;
    refuse(name, *value, fmt::format("a whole number from {} to {}", least, most));
  }

  // DIRECTORY or DIRECTORY:N.
  std::optional<CallDumps> call_dumps(const char* name) const {
    const auto value = text(name);
    if (!value) return std::nullopt;
    CallDumps dumps;
    const std::size_t colon = value->rfind(':');
    if (colon != value->npos) {
      const auto calls = whole_number(value->substr(colon + 1), 1, kMaxDumpedCalls);
      if (!calls || colon == 0) {
        refuse(name, *value,
               fmt::format("DIRECTORY or DIRECTORY:N with N from 1 to {}", kMaxDumpedCalls));
      }
      dumps.calls = *calls;
    }
    dumps.directory = absolute_path(name, value->substr(0, colon));
    return dumps;
  }

 private:
  static std::optional<std::uint64_t> whole_number(const std::string& text, std::uint64_t least,
                                                   std::uint64_t most) {
    std::uint64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number);
    const bool fits = error == std::errc{} && rest == end && number >= least && number <= most;
    return fits ? std::optional(number) : std::nullopt;
  }

  template <typename T, std::size_t N>
  static T pick(const char* name, const std::string& value, const std::string& canonical,
                const std::array<Choice<T>, N>& choices) {
    const auto found = std::ranges::find(choices, canonical, &Choice<T>::text);
    if (found != choices.end()) return found->value;
    std::string accepted;
    for (const auto& choice : choices) {
      accepted += fmt::format("{}{}", accepted.empty() ? "" : ", ", choice.text);
    }
    refuse(name, value, accepted);
  }

  [[noreturn]] static void refuse(const char* name, const std::string& value,
                                  const std::string& accepted) {
    throw Error(ErrorKind::kInvalidEnvironment,
                fmt::format("environment: {}=\"{}\" is not accepted; set it to {}, or unset it",
                            name, excerpt(value), accepted));
  }

  const Lookup& lookup_;
};

/// A directory that the XDG specification lets a variable name: absolute paths only.
std::optional<fs::path> xdg_directory(const Reader& reader, const char* name,
                                      std::vector<std::string>& notes) {
  const auto path = reader.path(name);
  if (path && !path->is_absolute()) {
    notes.push_back(fmt::format("{}={} is ignored: it is not absolute", name, path->string()));
    return std::nullopt;
  }
  return path;
}

std::optional<fs::path> cache_directory(const Reader& reader, Environment& result) {
  if (const auto chosen = reader.path("ATTNJIT_CACHE_DIR")) {
    if (*chosen == "0") return std::nullopt;
    return absolute_path("ATTNJIT_CACHE_DIR", *chosen);
  }
  if (const auto xdg = xdg_directory(reader, "XDG_CACHE_HOME", result.notes)) {
    return *xdg / "attnjit";
  }
  const auto home = reader.path("HOME");
  // Accounts of services have a HOME that is not meant to exist, and root would make it.
  std::error_code error;
  if (home && home->is_absolute() && fs::is_directory(*home, error)) {
    return *home / ".cache" / "attnjit";
  }
  result.cache_trouble =
      "HOME names no absolute directory that exists: kernels and tuning records are kept in memory "
      "only; set ATTNJIT_CACHE_DIR to a directory";
  return std::nullopt;
}

fs::path lock_directory(const Reader& reader, std::vector<std::string>& notes) {
  const auto runtime = xdg_directory(reader, "XDG_RUNTIME_DIR", notes);
  return runtime ? *runtime / "attnjit" : fs::path(fmt::format("/tmp/attnjit-{}", ::geteuid()));
}

std::vector<fs::path> split_paths(const std::string& list) {
  std::vector<fs::path> paths;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(':', begin), list.size());
    if (end > begin) paths.emplace_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return paths;
}

/// Directories in which other software says that it keeps the CUDA libraries.
std::vector<fs::path> cuda_directories(const Reader& reader) {
  std::vector<fs::path> directories;
  if (const auto conda = reader.path("CONDA_PREFIX")) directories.push_back(*conda / "lib");
  for (const char* const name : {"CUDA_PATH", "CUDA_HOME"}) {
    if (const auto toolkit = reader.path(name)) directories.push_back(*toolkit / "lib64");
  }
  return directories;
}

AutotuneMode effective_autotune(const Reader& reader, bool disabled, JitPolicy jit,
                                std::vector<std::string>& notes) {
  const AutotuneMode asked = reader.choice("ATTNJIT_AUTOTUNE", kAutotuneModes, AutotuneMode::kOn);
  const bool explicitly = reader.text("ATTNJIT_AUTOTUNE").has_value();
  if (disabled) {
    if (explicitly && asked != AutotuneMode::kOff) {
      notes.push_back(fmt::format("DISABLE_AUTOTUNE overrides ATTNJIT_AUTOTUNE={}",
                                  name_of(kAutotuneModes, asked)));
    }
    return AutotuneMode::kOff;
  }
  // Tuning needs compiles. The other modes time nothing, so forbid does not weaken them.
  const bool tunes = asked == AutotuneMode::kOn || asked == AutotuneMode::kForce;
  if (jit != JitPolicy::kForbid || !tunes) return asked;
  if (explicitly) {
    notes.push_back(fmt::format("ATTNJIT_JIT=forbid turns ATTNJIT_AUTOTUNE={} into cached",
                                name_of(kAutotuneModes, asked)));
  }
  return AutotuneMode::kCached;
}

std::string show(const std::optional<fs::path>& path, const char* absent = "(not set)") {
  return path ? path->string() : absent;
}

std::string show(const std::optional<CallDumps>& dumps) {
  return dumps ? fmt::format("{}:{}", dumps->directory.string(), dumps->calls) : "(not set)";
}

std::string show(const std::vector<fs::path>& paths) {
  std::string list;
  for (const auto& path : paths) list.append(list.empty() ? "" : ":").append(path.string());
  return list.empty() ? "(not set)" : list;
}

}  // namespace

Environment parse_environment(const Lookup& lookup) {
  const Reader reader(lookup);
  Environment result;
  result.disable_autotune = reader.flag("DISABLE_AUTOTUNE");
  result.jit = reader.choice("ATTNJIT_JIT", kJitPolicies, JitPolicy::kAllow);
  result.autotune = effective_autotune(reader, result.disable_autotune, result.jit, result.notes);
  result.cache_directory = cache_directory(reader, result);
  result.lock_directory = lock_directory(reader, result.notes);
  result.cache_max_bytes =
      reader.number("ATTNJIT_CACHE_MAX_BYTES", 0, std::numeric_limits<std::uint64_t>::max(),
                    result.cache_max_bytes);
  result.bundle_path = split_paths(reader.text("ATTNJIT_BUNDLE_PATH").value_or(""));
  result.record_file = reader.path("ATTNJIT_RECORD");
  result.call_dumps = reader.call_dumps("ATTNJIT_DUMP_CALLS");
  result.nvrtc_path = reader.path("ATTNJIT_NVRTC");
  result.host_compiler = reader.text("ATTNJIT_HOST_CXX").value_or("");
  result.cuda_directories = cuda_directories(reader);
  result.template_directory = reader.path("ATTNJIT_TEMPLATE_DIR");
  result.dump_directory = reader.path("ATTNJIT_DUMP");
  const unsigned cores = std::clamp(std::thread::hardware_concurrency(), 1U, kMaxJobs);
  result.jobs = static_cast<unsigned>(reader.number("ATTNJIT_JOBS", 1, kMaxJobs, cores));
  result.log_level = reader.choice("ATTNJIT_LOG", kLogLevels, LogLevel::kWarning);
  return result;
}

Environment process_environment() {
  return parse_environment([](const char* name) -> std::optional<std::string> {
    const char* const value = ::secure_getenv(name);
    return value ? std::optional<std::string>(value) : std::nullopt;
  });
}

fs::path absolute_path(const char* name, const fs::path& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  if (!error) return absolute;
  throw Error(
      ErrorKind::kInvalidEnvironment,
      fmt::format("{} is {}, relative to the working directory, which cannot be found ({}); "
                  "set it to an absolute path, or change to a directory that exists",
                  name, path.string(), error.message()));
}

fs::path temporary_directory() {
  std::error_code error;
  const fs::path directory = fs::temp_directory_path(error);
  return error ? fs::path("/tmp") : directory;
}

std::vector<std::pair<std::string, std::string>> describe(const Environment& environment) {
  const auto text = [](std::string_view view) { return std::string(view); };
  return {
      {"DISABLE_AUTOTUNE", environment.disable_autotune ? "1" : "0"},
      {"ATTNJIT_AUTOTUNE", text(name_of(kAutotuneModes, environment.autotune))},
      {"ATTNJIT_JIT", text(name_of(kJitPolicies, environment.jit))},
      {"ATTNJIT_CACHE_DIR", show(environment.cache_directory, "0 (memory only)")},
      {"ATTNJIT_CACHE_MAX_BYTES", std::to_string(environment.cache_max_bytes)},
      {"ATTNJIT_BUNDLE_PATH", show(environment.bundle_path)},
      {"ATTNJIT_RECORD", show(environment.record_file)},
      {"ATTNJIT_DUMP_CALLS", show(environment.call_dumps)},
      {"ATTNJIT_NVRTC", show(environment.nvrtc_path)},
      {"ATTNJIT_HOST_CXX",
       environment.host_compiler.empty() ? "(not set)" : environment.host_compiler},
      {"ATTNJIT_TEMPLATE_DIR", show(environment.template_directory)},
      {"ATTNJIT_DUMP", show(environment.dump_directory)},
      {"ATTNJIT_JOBS", std::to_string(environment.jobs)},
      {"ATTNJIT_LOG", text(name_of(kLogLevels, environment.log_level))},
  };
}

}  // namespace attnjit::base
