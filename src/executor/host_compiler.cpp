#include "executor/host_compiler.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "attnjit/error.hpp"
#include "base/environment.hpp"
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
    std::string name = (base::temporary_directory() / "attnjit-host-XXXXXX").string();
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

// The first line that a program prints; nullopt where it does not run or fails.
std::optional<std::string> first_line_of(const std::vector<std::string>& arguments) {
  const base::ProcessResult result = base::run_process(arguments);
  if (!result.may_have_succeeded()) return std::nullopt;
  return result.output.substr(0, result.output.find('\n'));
}

}  // namespace

HostCompiler::HostCompiler(std::string command) : wanted_(std::move(command)) {}

// -Og: compiling is most of the time that a small problem takes. Products and sums are rounded
// apart, as the reference does; a kernel must not depend on it.
std::span<const std::string> HostCompiler::options() {
  static const std::vector<std::string> list = {
      "-x",      "c++", "-std=c++20", "-Og", "-ffp-contract=off", "-fPIC", "-fvisibility=hidden",
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
  // Messages in English: diagnose() reads them.
  std::vector<std::string> arguments = {"env", "LC_ALL=C", command_};
  arguments.insert(arguments.end(), options().begin(), options().end());
  arguments.insert(arguments.end(), {"-o", object.string(), text.string()});
  const base::ProcessResult result = base::run_process(arguments);
  if (!result.may_have_succeeded()) throw Error(ErrorKind::kCompile, result.output);
  auto bytes = base::read_regular_file(object, kMaxObjectBytes);
  if (!bytes) {
    throw Error(ErrorKind::kCompile,
                fmt::format("{} wrote no {}: {}", command_, object.string(), result.output));
  }
  return std::move(*bytes);
}

}  // namespace attnjit::executor
