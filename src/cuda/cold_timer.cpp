#include "cuda/cold_timer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "attnjit/error.hpp"
#include "cuda/device.hpp"

namespace attnjit::cuda {
namespace {

constexpr std::size_t kLeastFlush = std::size_t{256} << 20;  // bytes; long enough to hide the host

std::size_t flush_bytes(const Driver& driver) {
  return std::max(kLeastFlush, 4 * current_device(driver).l2_bytes);
}

}  // namespace

ColdTimer::ColdTimer(const Driver& driver) : driver_(driver), flush_(driver, flush_bytes(driver)) {}

float ColdTimer::median_ms(CUstream stream, int count, const std::function<void()>& enqueue) {
  if (count < 1) {
    throw Error(ErrorKind::kInternal,
                fmt::format("cannot time {} launches; expected at least 1", count));
  }
  const auto laps = static_cast<std::size_t>(count);
  while (laps_.size() < laps) laps_.emplace_back(driver_);
  for (std::size_t i = 0; i < laps; ++i) {
    fill_bytes(driver_, flush_.data(), static_cast<std::uint8_t>(i), flush_.bytes(), stream);
    laps_[i].start.record(stream);
    enqueue();
    laps_[i].end.record(stream);
  }
  laps_[laps - 1].end.synchronize();
  std::vector<float> times;
  for (std::size_t i = 0; i < laps; ++i) times.push_back(laps_[i].end.elapsed_ms(laps_[i].start));
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(laps / 2);
  std::ranges::nth_element(times, middle);
  return *middle;
}

}  // namespace attnjit::cuda
