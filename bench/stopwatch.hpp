#pragma once
#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>
#include <vector>

namespace attnjit {

inline constexpr int kSamples = 20000;
/// Calls between two waits for the device, fewer than its queue holds.
inline constexpr int kBatch = 64;

/// Nanoseconds of one call.
struct Cost {
  double p50 = 0, p99 = 0;
};

/// The time of each of kSamples calls of `work`, with what reading the clock takes subtracted.
class Stopwatch {
 public:
  /// `wait` is called now and then, off the clock.
  explicit Stopwatch(std::function<void()> wait) : wait_(std::move(wait)) {
    overhead_ = measure([] {}).p50;
  }

  template <class Work>
  Cost measure(Work work) const {
    std::vector<double> samples;
    samples.reserve(kSamples);
    for (int i = 0; i < kSamples; ++i) {
      if (i % kBatch == 0) wait_();
      const std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
      work();
      const std::chrono::duration<double, std::nano> spent =
          std::chrono::steady_clock::now() - start;
      samples.push_back(spent.count() - overhead_);
    }
    wait_();
    std::ranges::sort(samples);
    return {samples[kSamples / 2], samples[kSamples * 99 / 100]};
  }

 private:
  std::function<void()> wait_;
  double overhead_ = 0;
};

}  // namespace attnjit
