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

}  // namespace

Log::Log(LogLevel level, Sink sink)
    : level_(level),
      shows_progress_(!sink && level >= LogLevel::kWarning && ::isatty(STDERR_FILENO) != 0),
      sink_(std::move(sink)) {}

void Log::emit(LogLevel level, std::string_view message) {
  State& state = *state_;
  if (in_sink(state)) return;
  {
    const std::scoped_lock lock(state.mutex);
    if (!sink_) {
      erase_progress(state);
      return write_to_stderr(level, message);
    }
    state.lines.push_back({level, std::string(message)});
    pending_ = true;
  }
  if (!deferred_) deliver();
}

void Log::deliver() {
  if (!pending_) return;
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  if (state.in_sink.load() != std::thread::id()) return;  // that thread goes on until none is left
  state.in_sink = std::this_thread::get_id();
  while (!state.lines.empty()) {
    const Line line = std::move(state.lines.front());
    state.lines.pop_front();
    lock.unlock();
    try {
      sink_(line.level, line.text);
    } catch (...) {
      // The line may be another thread's, whose call must not end for it, nor this one's.
    }
    lock.lock();
  }
  pending_ = false;
  state.in_sink = std::thread::id();
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
