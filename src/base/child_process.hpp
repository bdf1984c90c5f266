#pragma once
#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.hpp"

namespace attnjit::base {

/// The end of a process: its exit status, or the signal that ended it.
struct ProcessEnd {
  int status = 0;
  int signal = 0;     ///< 0: it exited
  bool known = true;  ///< false: the system kept neither, as where SIGCHLD is ignored

  std::string message() const;  ///< "exit status 3", "signal 11 (Segmentation fault)"
};

/// A program that runs beside this process and is spoken to in lines, through its standard input
/// and output; its standard error is this process's. The destructor kills it. Not thread-safe.
class ChildProcess {
 public:
  /// Starts `arguments[0]`, looked up in PATH unless it has a slash, without fork(). Throws
  /// Error(kInternal).
  explicit ChildProcess(const std::vector<std::string>& arguments);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t id() const { return id_; }

  /// Writes `line` and a line end without waiting; false where the child reads no more, or so
  /// little that its buffer has no room.
  bool send(std::string_view line);

  /// The outcome of receive().
  enum class Received { kLine, kEnd, kTimeout };

  /// Waits for a line of the child and puts it into `line` without its end. kTimeout: none was
  /// whole within `limit`; time in which this process was stopped (Ctrl-Z) does not count. kEnd:
  /// the child closed its output, or a line of it is longer than kMaxLine.
  Received receive(std::string& line, std::chrono::milliseconds limit);

  static constexpr std::size_t kMaxLine = std::size_t{16} << 20;

  /// Waits for the end of the child, `patience` at most, then kills it; how it ended, where that
  /// came by itself. A killed child that does not end either, within 30 s, is left to the system.
  std::optional<ProcessEnd> finish(std::chrono::milliseconds patience);

 private:
  bool take_line(std::string& line);

  pid_t id_ = -1;
  UniqueFd socket_;
  std::string pending_;  // received, not yet taken
};

/// Has the system kill this process when the thread that started it ends. A parent that ended
/// before the call goes unnoticed: read what it sends, too.
void end_with_parent();

}  // namespace attnjit::base
