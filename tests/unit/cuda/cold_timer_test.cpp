#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "attnjit/error.hpp"
#include "cuda/cold_timer.hpp"
#include "cuda/device.hpp"
#include "unit/cuda_stub_driver.hpp"

using attnjit::Error;
using namespace attnjit::cuda;

namespace {

// Flushes touch no memory, and their sizes are kept.
std::vector<std::size_t>& flushed() {
  static std::vector<std::size_t> sizes;
  return sizes;
}

// The times that the next laps will take, in milliseconds.
std::vector<float>& lap_times() {
  static std::vector<float> times;
  return times;
}

DriverApi timing_api() {
  DriverApi api = stub_api();
  api.memset_d8_async = [](CUdeviceptr, unsigned char, std::size_t bytes, CUstream) {
    return stub().call("memset", [&] { flushed().push_back(bytes); });
  };
  api.event_elapsed_time = [](float* out, CUevent, CUevent) {
    return stub().call("elapsed", [&] {
      *out = lap_times().back();
      lap_times().pop_back();
    });
  };
  flushed().clear();
  lap_times().clear();
  return api;
}

const auto kStream = reinterpret_cast<CUstream>(0x77);

}  // namespace

TEST_CASE("a cold timer flushes before each launch and puts its events round it") {
  StubDriver& state = reset_stub();
  const Driver driver(timing_api());
  const PrimaryContext current(driver);
  ColdTimer timer(driver);
  lap_times() = {1, 1};
  state.calls.clear();
  timer.median_ms(kStream, 2, [&] { state.calls.emplace_back("enqueue"); });
  const std::vector<std::string> expected = {"event",
                                             "event",
                                             "event",
                                             "event",
                                             "memset",
                                             "record",
                                             "enqueue",
                                             "record",
                                             "memset",
                                             "record",
                                             "enqueue",
                                             "record",
                                             "event_synchronize",
                                             "elapsed",
                                             "elapsed"};
  CHECK(state.calls == expected);
  CHECK(state.last_stream == kStream);
}

TEST_CASE("a cold timer gives the median") {
  reset_stub();
  const Driver driver(timing_api());
  const PrimaryContext current(driver);
  ColdTimer timer(driver);
  lap_times() = {9, 2, 100, 1, 3};
  CHECK(timer.median_ms(kStream, 5, [] {}) == 3);
  lap_times() = {7};
  CHECK(timer.median_ms(kStream, 1, [] {}) == 7);
}

TEST_CASE("a cold timer makes its events once and gives all back") {
  StubDriver& state = reset_stub();
  const Driver driver(timing_api());
  {
    const PrimaryContext current(driver);
    ColdTimer timer(driver);
    for (int round = 0; round < 3; ++round) {
      lap_times().assign(4, 1.0f);
      timer.median_ms(kStream, 4, [] {});
    }
    CHECK(state.count("event") == 8);
  }
  CHECK(state.live.empty());
}

TEST_CASE("a cold timer flushes several times the L2") {
  StubDriver& state = reset_stub();
  const Driver driver(timing_api());
  const PrimaryContext current(driver);
  for (const auto& [l2, expected] : {std::pair<int, std::size_t>{50 << 20, 256u << 20},
                                     std::pair<int, std::size_t>{126 << 20, 504u << 20}}) {
    state.device_attributes[CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE] = l2;
    ColdTimer timer(driver);
    lap_times() = {1};
    timer.median_ms(kStream, 1, [] {});
    CHECK(flushed().back() == expected);
  }
}

TEST_CASE("a cold timer needs a context and something to time, and passes errors on") {
  reset_stub();
  const Driver driver(timing_api());
  CHECK_THROWS_WITH_AS(ColdTimer{driver}, doctest::Contains("no CUDA context is current"), Error);
  const PrimaryContext current(driver);
  ColdTimer timer(driver);
  CHECK_THROWS_WITH_AS(timer.median_ms(kStream, 0, [] {}),
                       "cannot time 0 launches; expected at least 1", Error);
  const auto failing = [] { throw Error(attnjit::ErrorKind::kCuda, "no launch"); };
  CHECK_THROWS_WITH_AS(timer.median_ms(kStream, 1, failing), "no launch", Error);
}
