#pragma once
#include <cstddef>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace attnjit::executor {

/// The C++20 compiler of this machine: kernels as shared objects. Thread-safe.
class HostCompiler {
 public:
  /// `command` is a program's name or path; empty: the first of c++, g++ and clang++ that runs.
  explicit HostCompiler(std::string command = {});

  /// The options that every kernel is compiled with.
  static std::span<const std::string> options();

  /// Identity of the compiler: its version line and the machine it compiles for. Throws
  /// Error(kNoCompiler), saying what to install or set, where none runs.
  const std::string& id();

  /// The shared object of `source`. Throws Error(kNoCompiler) as id() does, and Error(kCompile)
  /// with what the compiler prints, in English.
  std::vector<std::byte> compile(const std::string& source);

 private:
  const std::string wanted_;
  std::mutex mutex_;
  std::string command_;
  std::optional<std::string> id_;
};

}  // namespace attnjit::executor
