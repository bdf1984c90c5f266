#pragma once
#include <functional>
#include <optional>
#include <thread>
#include <vector>

namespace attnjit::cli {

/// Samples a clock from a thread of its own, every few milliseconds from here on.
class ClockSamples {
 public:
  /// `read` gives MHz, or nullopt where they are unknown; it is called from that thread.
  explicit ClockSamples(std::function<std::optional<double>()> read);
  ~ClockSamples() { stop(); }
  ClockSamples(const ClockSamples&) = delete;
  ClockSamples& operator=(const ClockSamples&) = delete;

  /// Ends the sampling; the median, or nullopt where no sample was known.
  std::optional<double> median();

 private:
  void stop();

  std::vector<double> samples_;  // of the thread, until it has ended
  std::jthread thread_;
};

}  // namespace attnjit::cli
