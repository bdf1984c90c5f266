#include "base/environment.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "attnjit/error.hpp"
#include "unit/temp_directory.hpp"

using namespace attnjit;
using namespace attnjit::base;
namespace fs = std::filesystem;

namespace {

using Variables = std::map<std::string, std::string>;

Environment parse(Variables variables) {
  variables.try_emplace("HOME", "/usr");
  return parse_environment([&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

bool has_note(const Environment& environment, const std::string& part) {
  return std::ranges::any_of(environment.notes, [&](const std::string& note) {
    return note.find(part) != std::string::npos;
  });
}

void check_refused(const std::string& name, const std::string& value, const std::string& accepted) {
  CAPTURE(name);
  CAPTURE(value);
  try {
    parse({{name, value}});
    FAIL_CHECK("accepted");
  } catch (const Error& error) {
    const std::string message = error.what();
    CAPTURE(message);
    CHECK(error.kind() == ErrorKind::kInvalidEnvironment);
    CHECK(message.find(name + "=\"" + value + "\"") != std::string::npos);
    CHECK(message.find(accepted) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("an empty environment gives the documented defaults") {
  const Environment environment = parse({});
  CHECK_FALSE(environment.disable_autotune);
  CHECK(environment.autotune == AutotuneMode::kOn);
  CHECK(environment.jit == JitPolicy::kAllow);
  CHECK(environment.cache_directory == "/usr/.cache/attnjit");
  CHECK(environment.cache_max_bytes == 2147483648);
  CHECK(environment.bundle_path.empty());
  CHECK_FALSE(environment.record_file);
  CHECK_FALSE(environment.call_dumps);
  CHECK_FALSE(environment.nvrtc_path);
  CHECK_FALSE(environment.template_directory);
  CHECK_FALSE(environment.dump_directory);
  CHECK(environment.jobs == std::max(1U, std::thread::hardware_concurrency()));
  CHECK(environment.log_level == LogLevel::kWarning);
  CHECK(environment.notes.empty());
}

TEST_CASE("every variable reaches its field") {
  const Environment environment = parse({{"ATTNJIT_AUTOTUNE", "require"},
                                         {"ATTNJIT_JIT", "warn"},
                                         {"ATTNJIT_CACHE_DIR", "/c"},
                                         {"ATTNJIT_CACHE_MAX_BYTES", "0"},
                                         {"ATTNJIT_BUNDLE_PATH", "/a::/b:"},
                                         {"ATTNJIT_RECORD", "/r"},
                                         {"ATTNJIT_DUMP_CALLS", "/calls:20"},
                                         {"ATTNJIT_NVRTC", "/n"},
                                         {"ATTNJIT_TEMPLATE_DIR", "/t"},
                                         {"ATTNJIT_DUMP", "/d"},
                                         {"ATTNJIT_JOBS", "3"},
                                         {"ATTNJIT_LOG", "debug"}});
  CHECK(environment.autotune == AutotuneMode::kRequire);
  CHECK(environment.jit == JitPolicy::kWarn);
  CHECK(environment.cache_directory == "/c");
  CHECK(environment.cache_max_bytes == 0);
  CHECK(environment.bundle_path == std::vector<std::filesystem::path>{"/a", "/b"});
  CHECK(environment.record_file == "/r");
  CHECK(environment.call_dumps.value().directory == "/calls");
  CHECK(environment.call_dumps->calls == 20);
  CHECK(environment.nvrtc_path == "/n");
  CHECK(environment.template_directory == "/t");
  CHECK(environment.dump_directory == "/d");
  CHECK(environment.jobs == 3);
  CHECK(environment.log_level == LogLevel::kDebug);
}

TEST_CASE("DISABLE_AUTOTUNE takes its spellings in any case and beats ATTNJIT_AUTOTUNE") {
  for (const char* yes : {"1", "true", "yes", "on", "TRUE", "On"}) {
    CAPTURE(yes);
    const Environment environment = parse({{"DISABLE_AUTOTUNE", yes}});
    CHECK(environment.disable_autotune);
    CHECK(environment.autotune == AutotuneMode::kOff);
    CHECK(environment.notes.empty());
  }
  for (const char* no : {"0", "false", "no", "off", "", "False"}) {
    CAPTURE(no);
    CHECK_FALSE(parse({{"DISABLE_AUTOTUNE", no}}).disable_autotune);
  }
  const Environment both = parse({{"DISABLE_AUTOTUNE", "1"}, {"ATTNJIT_AUTOTUNE", "force"}});
  CHECK(both.autotune == AutotuneMode::kOff);
  CHECK(has_note(both, "DISABLE_AUTOTUNE overrides ATTNJIT_AUTOTUNE=force"));
}

TEST_CASE("ATTNJIT_JIT=forbid stops tuning and nothing else") {
  const auto under_forbid = [](const char* mode) {
    return parse({{"ATTNJIT_JIT", "forbid"}, {"ATTNJIT_AUTOTUNE", mode}});
  };
  CHECK(under_forbid("").autotune == AutotuneMode::kCached);
  CHECK(under_forbid("").notes.empty());
  CHECK(under_forbid("force").autotune == AutotuneMode::kCached);
  CHECK(has_note(under_forbid("force"), "ATTNJIT_AUTOTUNE=force"));
  CHECK(under_forbid("require").autotune == AutotuneMode::kRequire);
  CHECK(under_forbid("off").autotune == AutotuneMode::kOff);
}

TEST_CASE("the cache directory follows ATTNJIT_CACHE_DIR, XDG_CACHE_HOME, HOME in that order") {
  CHECK(parse({{"ATTNJIT_CACHE_DIR", "/c"}, {"XDG_CACHE_HOME", "/x"}}).cache_directory == "/c");
  CHECK(parse({{"XDG_CACHE_HOME", "/x"}}).cache_directory == "/x/attnjit");
  CHECK(parse({{"ATTNJIT_CACHE_DIR", ""}}).cache_directory == "/usr/.cache/attnjit");
  CHECK_FALSE(parse({{"ATTNJIT_CACHE_DIR", "0"}}).cache_directory);
  CHECK(parse({{"ATTNJIT_CACHE_DIR", "here"}}).cache_directory ==
        std::filesystem::current_path() / "here");

  const Environment relative = parse({{"XDG_CACHE_HOME", "x"}});
  CHECK(relative.cache_directory == "/usr/.cache/attnjit");
  CHECK(has_note(relative, "XDG_CACHE_HOME=x"));

  for (const char* home : {"", "usr", "/nonexistent"}) {
    const Environment homeless = parse({{"HOME", home}});
    CHECK_FALSE(homeless.cache_directory);
    REQUIRE(homeless.cache_trouble);
    CHECK(homeless.cache_trouble->find("ATTNJIT_CACHE_DIR") != std::string::npos);
  }
  CHECK_FALSE(parse({{"ATTNJIT_CACHE_DIR", "0"}}).cache_trouble);
}

TEST_CASE("locks lie in XDG_RUNTIME_DIR, else in a directory per user") {
  CHECK(parse({{"XDG_RUNTIME_DIR", "/run/user/7"}}).lock_directory == "/run/user/7/attnjit");
  CHECK(parse({}).lock_directory.string().starts_with("/tmp/attnjit-"));
  CHECK(parse({{"XDG_RUNTIME_DIR", "run"}}).lock_directory == parse({}).lock_directory);
}

TEST_CASE("the directories of CUDA installations are kept in the order they are searched") {
  using Paths = std::vector<std::filesystem::path>;
  CHECK(parse({}).cuda_directories.empty());
  CHECK(
      parse({{"CUDA_HOME", "/h"}, {"CUDA_PATH", "/p"}, {"CONDA_PREFIX", "/c"}}).cuda_directories ==
      Paths{"/c/lib", "/p/lib64", "/h/lib64"});
  CHECK(parse({{"CUDA_HOME", "/h"}, {"CUDA_PATH", ""}}).cuda_directories == Paths{"/h/lib64"});
}

TEST_CASE("garbage is refused with the variable, the value and what would do") {
  check_refused("DISABLE_AUTOTUNE", "banana", "true, yes, on, 0");
  check_refused("DISABLE_AUTOTUNE", "2", "true, yes, on, 0");
  check_refused("ATTNJIT_AUTOTUNE", "On", "on, cached, force, require, off");
  check_refused("ATTNJIT_JIT", "never", "allow, warn, forbid");
  check_refused("ATTNJIT_LOG", "4", "error, warn, info, debug");
  for (const char* value : {"-1", "+1", " 1", "1k", "1e3", "18446744073709551616"}) {
    check_refused("ATTNJIT_CACHE_MAX_BYTES", value, "whole number from 0");
  }
  for (const char* value : {"0", "1025", "four"}) {
    check_refused("ATTNJIT_JOBS", value, "whole number from 1 to 1024");
  }
  for (const char* value : {"/calls:", "/calls:0", "/calls:many", ":8", "/calls:1000001"}) {
    check_refused("ATTNJIT_DUMP_CALLS", value, "DIRECTORY:N with N from 1 to 1000000");
  }
}

TEST_CASE("describe() shows the effective values") {
  const auto pairs = describe(parse({{"DISABLE_AUTOTUNE", "yes"},
                                     {"ATTNJIT_AUTOTUNE", "force"},
                                     {"ATTNJIT_CACHE_DIR", "0"},
                                     {"ATTNJIT_BUNDLE_PATH", "/a:/b"},
                                     {"ATTNJIT_LOG", "info"}}));
  const Variables shown(pairs.begin(), pairs.end());
  CHECK(shown.size() == 14);
  CHECK(shown.at("DISABLE_AUTOTUNE") == "1");
  CHECK(shown.at("ATTNJIT_AUTOTUNE") == "off");
  CHECK(shown.at("ATTNJIT_CACHE_DIR") == "0 (memory only)");
  CHECK(shown.at("ATTNJIT_BUNDLE_PATH") == "/a:/b");
  CHECK(shown.at("ATTNJIT_RECORD") == "(not set)");
  CHECK(shown.at("ATTNJIT_DUMP_CALLS") == "(not set)");
  CHECK(shown.at("ATTNJIT_LOG") == "info");
}

TEST_CASE("process_environment() reads the variables of this process") {
  REQUIRE(::setenv("ATTNJIT_RECORD", "/from/the/process", 1) == 0);
  CHECK(process_environment().record_file == "/from/the/process");
  ::unsetenv("ATTNJIT_RECORD");
  CHECK_FALSE(process_environment().record_file);
}

TEST_CASE("a relative cache directory in a deleted working directory is an error of ours") {
  const fs::path before = fs::current_path();
  {
    const test::TempDirectory temp;
    fs::current_path(temp.path());
  }
  std::string message;
  try {
    parse({{"ATTNJIT_CACHE_DIR", "relative"}});
  } catch (const Error& error) {
    message = error.what();
  }
  CHECK(parse({{"ATTNJIT_CACHE_DIR", "/absolute"}}).cache_directory == "/absolute");
  fs::current_path(before);
  CHECK(message.find("ATTNJIT_CACHE_DIR is relative") == 0);
  CHECK(message.find("absolute path") != std::string::npos);
}

TEST_CASE("temporary files go to TMPDIR, or to /tmp where that names no directory") {
  const char* const before = std::getenv("TMPDIR");
  const std::string kept = before != nullptr ? before : "";
  const test::TempDirectory temp;
  ::setenv("TMPDIR", temp.path().c_str(), 1);
  CHECK(temporary_directory() == temp.path());
  ::setenv("TMPDIR", (temp / "absent").c_str(), 1);
  CHECK(temporary_directory() == "/tmp");
  if (before != nullptr) {
    ::setenv("TMPDIR", kept.c_str(), 1);
  } else {
    ::unsetenv("TMPDIR");
  }
}
