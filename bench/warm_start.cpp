// Prints what a process with warm kernels spends until its first call has been launched: a JSON
// object, with times in milliseconds since main(). cold_start.py starts it; README.md says how.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>

#include "base/environment.hpp"
#include "forward_fixtures.hpp"
#include "runtime/call/dispatcher.hpp"
#include "silent_driver.hpp"

namespace attnjit {
namespace {

using Clock = std::chrono::steady_clock;

double since_ms(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Whether the dynamic linker has brought NVRTC in.
bool has_nvrtc() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("libnvrtc") != std::string::npos) return true;
  }
  return false;
}

void run(Clock::time_point start) {
  runtime::Dispatcher dispatcher(base::process_environment(), {}, test::silent_driver());
  const double context = since_ms(start);
  const ForwardArgs args = test::forward_args({.head_dim = 128, .head_dim_v = 128});
  dispatcher.forward(args, nullptr, {});
  const double first = since_ms(start);
  dispatcher.forward(args, nullptr, {});
  const double second = since_ms(start) - first;
  const Counters counters = dispatcher.counters();
  fmt::print(
      "{{\"context_ms\": {:.3f}, \"first_launch_ms\": {:.3f}, \"second_call_ms\": {:.4f}, "
      "\"compiles\": {}, \"bundle_hits\": {}, \"disk_hits\": {}, \"nvrtc_loaded\": {}}}\n",
      context, first, second, counters.compiles, counters.bundle_hits, counters.disk_hits,
      has_nvrtc());
}

}  // namespace
}  // namespace attnjit

int main() try {
  attnjit::run(std::chrono::steady_clock::now());
} catch (const std::exception& error) {
  fmt::print(stderr, "bench_warm_start: {}\n", error.what());
  return 1;
}
