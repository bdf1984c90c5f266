#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attnjit::base {

/// Owns a file descriptor.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept;
  ~UniqueFd();

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

  /// Closes now; 0, or the errno of close(), where a network file system reports lost writes.
  int close();

 private:
  int fd_ = -1;
};

/// The whole of a regular file of at most `max_bytes`. nullopt where there is none: absent,
/// unreadable, a symbolic link, a directory, a FIFO, or larger than that. Never blocks on a FIFO
/// and allocates only once the size is known to be allowed.
std::optional<std::vector<std::byte>> read_regular_file(const std::filesystem::path& path,
                                                        std::uint64_t max_bytes);

using FileTime = std::chrono::sys_time<std::chrono::nanoseconds>;

/// The identity of a file and the state that it was met in: a file that was replaced or written has
/// another stamp.
struct FileStamp {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t bytes = 0;
  FileTime modified;

  bool operator==(const FileStamp&) const = default;
};

/// read_regular_file(), but nullopt also where someone else could have written the file: its owner
/// is neither this user nor root, or its group or others may write it. `stamp`, unless null, gets
/// that of what was read.
std::optional<std::vector<std::byte>> read_private_file(const std::filesystem::path& path,
                                                        std::uint64_t max_bytes,
                                                        FileStamp* stamp = nullptr);

/// The stamp of a regular file; nullopt for everything else, a symbolic link included.
std::optional<FileStamp> stamp_of(const std::filesystem::path& path);

/// Sets the time of the last change of a file where that is allowed.
void set_modified(const std::filesystem::path& path, FileTime time);

/// The outcome of a write.
struct WriteResult {
  int error = 0;          ///< errno, 0 on success
  const char* step = "";  ///< the call that failed

  bool ok() const { return error == 0; }
  std::string message() const;  ///< such as "fsync: No space left on device"
};

/// A file that readers see when it is whole: until finish() it has another name, in a directory of
/// the same file system, and a crash leaves nothing at `path`. A file-size limit is an error here
/// and no signal.
class AtomicFile {
 public:
  /// The umask takes from `mode`.
  AtomicFile(std::filesystem::path path, const std::filesystem::path& temporary,
             unsigned mode = 0600);
  ~AtomicFile();  ///< Removes what was not finished.
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends `bytes`; does nothing after a failure.
  void write(std::span<const std::byte> bytes);

  /// Waits until the bytes are on the disk and gives the file its name; the first failure of all.
  WriteResult finish();

 private:
  std::filesystem::path path_, unfinished_;
  UniqueFd fd_;
  WriteResult result_;
};

/// Puts `bytes` at `path` so that readers see nothing, the old file or the whole new one, and a
/// crash leaves no half file. `temporary` is a directory of the same file system; the umask takes
/// from `mode`. Reports failures, a file-size limit included, by its result, and leaves nothing
/// behind then.
WriteResult write_file_atomic(const std::filesystem::path& path,
                              const std::filesystem::path& temporary,
                              std::span<const std::byte> bytes, unsigned mode = 0600);

/// Waits until the names in `directory` are on the disk: what was put there survives a loss of
/// power.
WriteResult sync_directory(const std::filesystem::path& directory);

/// Appends `line` and a line end to `path`, which is created (mode 0600) when missing, in one
/// write: lines of several processes do not mix. Follows no symbolic link.
WriteResult append_line(const std::filesystem::path& path, std::string_view line);

}  // namespace attnjit::base
