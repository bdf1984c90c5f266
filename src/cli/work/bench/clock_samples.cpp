#include "cli/work/bench/clock_samples.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace attnjit::cli {

ClockSamples::ClockSamples(std::function<std::optional<double>()> read)
    : thread_([this, read = std::move(read)](const std::stop_token& stopped) {
        constexpr std::chrono::milliseconds kPause(5);
        do {
          if (const auto mhz = read()) samples_.push_back(*mhz);
          std::this_thread::sleep_for(kPause);
        } while (!stopped.stop_requested());
      }) {}

void ClockSamples::stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

std::optional<double> ClockSamples::median() {
  stop();
  if (samples_.empty()) return std::nullopt;
  const auto middle = samples_.begin() + static_cast<std::ptrdiff_t>(samples_.size() / 2);
  std::ranges::nth_element(samples_, middle);
  return *middle;
}

}  // namespace attnjit::cli
