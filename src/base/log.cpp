#include "base/log.hpp"

#include <unistd.h>

#include <array>
#include <cstdio>

#include "base/printable.hpp"

namespace attnjit::base {
namespace {

void write_to_stderr(LogLevel level, std::string_view message) {
  constexpr std::array<const char*, 4> kNames = {"error", "warning", "info", "debug"};
  // One write per line, so that the lines of several processes do not mix.
  const std::string line =
      fmt::format("attnjit: {}: {}\n", kNames[static_cast<std::size_t>(level)], message);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

/// Names the current thread in `place` while it lives, also where the sink throws.
class SinkMark {
 public:
  explicit SinkMark(std::atomic<std::thread::id>& place) : place_(place) {
    place_ = std::this_thread::get_id();
  }
  ~SinkMark() { place_ = std::thread::id(); }
  SinkMark(const SinkMark&) = delete;
  SinkMark& operator=(const SinkMark&) = delete;

 private:
  std::atomic<std::thread::id>& place_;
};

}  // namespace

Log::Log(LogLevel level, Sink sink)
    : level_(level),
      shows_progress_(!sink && level >= LogLevel::kWarning && ::isatty(STDERR_FILENO) != 0),
      sink_(sink ? std::move(sink) : Sink(write_to_stderr)) {}

void Log::emit(LogLevel level, std::string_view message) {
  State& state = *state_;
  if (in_sink(state)) return;
  const std::scoped_lock lock(state.mutex);
  const SinkMark mark(state.in_sink);
  erase_progress(state);
  sink_(level, message);
}

void Log::erase_progress(State& state) {
  if (!state.has_progress) return;
  state.has_progress = false;
  constexpr std::string_view kErase = "\r\x1b[K";
  std::fwrite(kErase.data(), 1, kErase.size(), stderr);
}

void Log::progress(std::string_view text) {
  if (!shows_progress_) return;
  constexpr std::size_t kWidth = 66;  // a line that the terminal folds could not be erased
  State& state = *state_;
  const std::scoped_lock lock(state.mutex);
  erase_progress(state);
  if (text.empty()) return;
  const std::string line = "attnjit: " + excerpt(text, kWidth);
  std::fwrite(line.data(), 1, line.size(), stderr);
  state.has_progress = true;
}

void Log::warn_once(std::string_view key, std::string_view message) {
  State& state = *state_;
  if (in_sink(state)) return;  // it has its turn outside of the sink
  {
    const std::scoped_lock lock(state.mutex);
    if (!state.warned.emplace(key).second) return;
  }
  warning("{}", message);
}

}  // namespace attnjit::base
