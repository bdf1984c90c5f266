#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/parallel.hpp"

using attnjit::base::parallel_for;

TEST_CASE("parallel_for calls each index once, whatever the number of jobs") {
  for (const unsigned jobs : {0U, 1U, 3U, 64U}) {
    CAPTURE(jobs);
    std::vector<std::atomic<int>> calls(50);
    parallel_for(calls.size(), jobs, [&](std::size_t i) { ++calls[i]; });
    for (const auto& count : calls) CHECK(count == 1);
  }
  parallel_for(0, 4, [](std::size_t) { FAIL("nothing to call"); });
}

TEST_CASE("parallel_for runs jobs at a time, neither fewer nor more") {
  constexpr int kJobs = 4;
  std::atomic<int> running = 0;
  std::atomic<int> most = 0;
  parallel_for(40, kJobs, [&](std::size_t) {
    const int now = ++running;
    for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
    }
    // The first ones wait for each other; a time limit so that a failure is not a hang.
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (most < kJobs && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    --running;
  });
  CHECK(most == kJobs);
}

TEST_CASE("parallel_for stops at an exception and rethrows it after all threads") {
  std::atomic<int> calls = 0;
  std::atomic<int> running = 0;
  std::string message;
  try {
    parallel_for(100000, 4, [&](std::size_t i) {
      ++calls;
      ++running;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      --running;
      if (i == 7) throw std::runtime_error("index 7");
    });
  } catch (const std::runtime_error& error) {
    message = error.what();
    CHECK(running == 0);
  }
  CHECK(message == "index 7");
  CHECK(calls < 1000);
}
