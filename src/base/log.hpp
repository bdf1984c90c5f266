#pragma once
#include <fmt/format.h>

#include <atomic>
#include <deque>
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

/// Messages for people. Thread-safe; the sink gets lines in their order, from one thread of a
/// process at a time, which holds no lock of the log then and takes over the lines that other
/// threads have meanwhile. A line that the sink itself causes, on its own thread, is dropped, and
/// what it throws is ignored. There is no error(): errors are thrown, and the code that catches one
/// decides what to print.
class Log {
 public:
  using Sink = std::function<void(LogLevel, std::string_view)>;

  /// Passes on messages up to `level`. An empty sink means stderr, a line per message, such as
  /// "attnjit: warning: ...".
  explicit Log(LogLevel level = LogLevel::kWarning, Sink sink = {});

  /// From here on lines for a sink wait for deliver(), because it may call what logs them. To be
  /// called before other threads log. Lines for stderr never wait.
  void defer() { deferred_ = true; }

  /// Passes the lines that wait to the sink, unless a thread is at that already.
  void deliver();

  /// Delivers when it goes out of scope, where its thread holds nothing that the sink may wait for.
  class Delivery {
   public:
    explicit Delivery(Log& log) : log_(log) {}
    ~Delivery() { log_.deliver(); }
    Delivery(const Delivery&) = delete;
    Delivery& operator=(const Delivery&) = delete;

   private:
    Log& log_;
  };

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

  struct Line {
    LogLevel level;
    std::string text;
  };
  struct State {
    std::mutex mutex;
    std::deque<Line> lines;                  // for the sink, not yet delivered
    std::atomic<std::thread::id> in_sink{};  // the thread that is in the sink, if any
    std::set<std::string, std::less<>> warned;
    bool has_progress = false;  // on the terminal's last line
  };
  static void erase_progress(State& state);
  static bool in_sink(const State& state) { return state.in_sink == std::this_thread::get_id(); }

  const LogLevel level_;
  const bool shows_progress_;
  const Sink sink_;  // empty: stderr
  bool deferred_ = false;
  std::atomic<bool> pending_ = false;  // whether there may be lines to deliver
  PerProcess<State> state_;
};

}  // namespace attnjit::base
