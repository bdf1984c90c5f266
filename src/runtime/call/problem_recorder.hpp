#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/log.hpp"

namespace attnjit::runtime {

/// ATTNJIT_RECORD: collects the problems of a program in a file, a manifest to warm up and tune
/// with. Thread-safe, and so are several processes with one file: a line is appended by one write.
class ProblemRecorder {
 public:
  /// `file` nullopt: nothing is recorded. `log` must outlive it.
  ProblemRecorder(std::optional<std::filesystem::path> file, base::Log& log);

  /// Appends `manifest_line` unless the file has it, or has grown beyond kMaxBytes. Two that note
  /// the same line at once may both append it; a manifest counts it once. What keeps a line from
  /// being written is logged once, never thrown.
  void note(const std::string& manifest_line);

  static constexpr std::uint64_t kMaxBytes = std::uint64_t{16} << 20;

 private:
  const std::optional<std::filesystem::path> file_;
  base::Log& log_;
};

}  // namespace attnjit::runtime
