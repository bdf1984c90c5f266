#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/file.hpp"

namespace attnjit::base {

/// An open file whose parts are read by offset: no position is shared, so threads, and processes
/// after a fork, may read at once.
class RandomAccessFile {
 public:
  /// Opens `path` for reading, or says why not: a file that is absent or unreadable, a symbolic
  /// link, no regular file, or one that someone else than this user and root could write. Never
  /// blocks on a FIFO.
  static std::variant<RandomAccessFile, std::string> open(const std::filesystem::path& path);

  /// Bytes, when it was opened.
  std::uint64_t size() const { return size_; }

  /// `bytes` from `offset`; nullopt where the file does not have them (any more), or on an I/O
  /// error. The caller has compared `bytes` with size(), for they are allocated.
  std::optional<std::vector<std::byte>> read(std::uint64_t offset, std::size_t bytes) const;

 private:
  RandomAccessFile(UniqueFd fd, std::uint64_t size) : fd_(std::move(fd)), size_(size) {}

  UniqueFd fd_;
  std::uint64_t size_;
};

}  // namespace attnjit::base
