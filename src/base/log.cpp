#include "base/log.hpp"

#include <array>
#include <cstdio>

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
    : level_(level), sink_(sink ? std::move(sink) : Sink(write_to_stderr)) {}

void Log::emit(LogLevel level, std::string_view message) {
  State& state = *state_;
  if (in_sink(state)) return;
  const std::scoped_lock lock(state.mutex);
  const SinkMark mark(state.in_sink);
  sink_(level, message);
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
