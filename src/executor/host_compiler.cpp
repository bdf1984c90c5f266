#include "executor/host_compiler.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "attnjit/error.hpp"
#include "base/file.hpp"
#include "base/process.hpp"

namespace attnjit::executor {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxObjectBytes = std::uint64_t{64} << 20;

/// A directory of its own that goes away with its contents.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (fs::temp_directory_path() / "attnjit-host-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      throw Error(ErrorKind::kCompile,
                  fmt::format("cannot create {}: {}; set TMPDIR to a directory "
                              "that can be written",
                              name, std::strerror(errno)));
    }
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  fs::path operator/(const char* name) const { return path_ / name; }

 private:
  fs::path path_;
};

void write_text(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) {
    throw Error(ErrorKind::kCompile, fmt::format("cannot write {}", path.string()));
  }
}

// What a program prints first; nullopt where it does not run or fails.
std::optional<std::string> first_line_of(const std::vector<std::string>& arguments) {
  const base::ProcessResult result = base::run_process(arguments);
  if (!result.started || result.status != 0) return std::nullopt;
  return result.output.substr(0, result.output.find('\n'));
}

// The last "// ---- file" line above `line`, which flatten() writes, and the text of `line` itself.
struct Place {
  std::string file = "the generated stub";
  std::string text;
};
Place place_of(const std::string& source, int line) {
  Place place;
  std::istringstream lines(source);
  constexpr std::string_view kMark = "// ---- ";
  for (std::string text; line > 0 && std::getline(lines, text); --line) {
    if (text.starts_with(kMark)) place.file = text.substr(kMark.size());
    place.text = text;
  }
  place.text.erase(0, place.text.find_first_not_of(' '));
  return place;
}

// The message for a compile that failed. g++ and clang++ write "file:line:column: error: text".
std::string explain(const std::string& log, const std::string& source) {
  static const std::regex kError(R"(:(\d+):\d+: (?:fatal )?error: ([^\n]*))");
  static const std::regex kMissing(
      R"(['‘](\w+)['’] is not a member of ['‘][\w:]*ptx['’]|no member named '(\w+)' in namespace '[\w:]*ptx')");
  std::smatch error;
  if (!std::regex_search(log, error, kError)) return log;
  const Place place = place_of(source, std::stoi(error[1]));
  const std::string what = error[2];
  std::smatch missing;
  if (std::regex_search(what, missing, kMissing)) {
    const std::string name = missing[1].matched ? missing[1] : missing[2];
    return fmt::format(
        "the CPU executor has no primitive ptx::{}, which {} calls: \"{}\"; docs/executor.md tells "
        "how to add it",
        name, place.file, place.text);
  }
  return fmt::format("{} in {}: \"{}\"", what, place.file, place.text);
}

}  // namespace

HostCompiler::HostCompiler(std::string command) : wanted_(std::move(command)) {}

// -O1: compiling is most of the time that a small problem takes. Products and sums are rounded
// apart, as the reference does; a kernel must not depend on it.
std::span<const std::string> HostCompiler::options() {
  static const std::vector<std::string> list = {
      "-x",      "c++", "-std=c++20", "-O1", "-ffp-contract=off", "-fPIC", "-fvisibility=hidden",
      "-shared", "-w"};
  return list;
}

const std::string& HostCompiler::id() {
  const std::lock_guard lock(mutex_);
  if (id_) return *id_;
  const auto candidates = wanted_.empty() ? std::vector<std::string>{"c++", "g++", "clang++"}
                                          : std::vector<std::string>{wanted_};
  for (const std::string& candidate : candidates) {
    const auto version = first_line_of({candidate, "--version"});
    const auto machine = first_line_of({candidate, "-dumpmachine"});
    if (!version || !machine) continue;
    command_ = candidate;
    id_ = fmt::format("{}, {}", *version, *machine);
    return *id_;
  }
  throw Error(
      ErrorKind::kNoCompiler,
      fmt::format("the CPU executor needs a C++20 compiler for this machine, and {} does not "
                  "run; install g++, or set ATTNJIT_HOST_CXX to a compiler",
                  fmt::join(candidates, " or ")));
}

std::vector<std::byte> HostCompiler::compile(const std::string& source) {
  id();  // finds the compiler
  const TemporaryDirectory directory;
  const fs::path text = directory / "kernel.cpp";
  const fs::path object = directory / "kernel.so";
  write_text(text, source);
  std::vector<std::string> arguments = {command_};
  arguments.insert(arguments.end(), options().begin(), options().end());
  arguments.insert(arguments.end(), {"-o", object.string(), text.string()});
  const base::ProcessResult result = base::run_process(arguments);
  if (result.status != 0) {
    throw Error(ErrorKind::kCompile,
                fmt::format("{}: {}", command_, explain(result.output, source)));
  }
  auto bytes = base::read_regular_file(object, kMaxObjectBytes);
  if (!bytes) {
    throw Error(ErrorKind::kCompile, fmt::format("{} wrote no {}", command_, object.string()));
  }
  return std::move(*bytes);
}

}  // namespace attnjit::executor
