#pragma once
#include <fmt/format.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/per_process.hpp"

namespace attnjit::base {

enum class LogLevel { kError, kWarning, kInfo, kDebug };

/// Messages for people. Thread-safe; the sink is called by one thread of a process at a time. A
/// line that the sink itself causes, on its own thread, is dropped. There is no error(): errors are
/// thrown, and the code that catches one decides what to print.
class Log {
 public:
  using Sink = std::function<void(LogLevel, std::string_view)>;

  /// Passes on messages up to `level`. An empty sink means stderr, a line per message, such as
  /// "attnjit: warning: ...".
  explicit Log(LogLevel level = LogLevel::kWarning, Sink sink = {});

  template <typename... Args>
  void warning(fmt::format_string<Args...> format, Args&&... args) {
    write(LogLevel::kWarning, format, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void info(fmt::format_string<Args...> format, Args&&... args) {
    write(LogLevel::kInfo, format, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void debug(fmt::format_string<Args...> format, Args&&... args) {
    write(LogLevel::kDebug, format, std::forward<Args>(args)...);
  }

  /// Warns the first time that it sees `key`; later calls with it are silent.
  void warn_once(std::string_view key, std::string_view message);

  /// Whether progress() shows anything: lines go to stderr, warnings among them, and that is a
  /// terminal.
  bool shows_progress() const { return shows_progress_; }

  /// Shows the beginning of `text` on the terminal until another line comes or the next progress
  /// takes its place. An empty one takes it away.
  void progress(std::string_view text);

 private:
  template <typename... Args>
  void write(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
    if (level <= level_) emit(level, fmt::format(format, std::forward<Args>(args)...));
  }
  void emit(LogLevel level, std::string_view message);

  struct State {
    std::mutex mutex;
    std::atomic<std::thread::id> in_sink{};  // the thread that is in the sink, if any
    std::set<std::string, std::less<>> warned;
    bool has_progress = false;  // on the terminal's last line
  };
  static void erase_progress(State& state);
  static bool in_sink(const State& state) { return state.in_sink == std::this_thread::get_id(); }

  const LogLevel level_;
  const bool shows_progress_;
  const Sink sink_;
  PerProcess<State> state_;
};

}  // namespace attnjit::base
