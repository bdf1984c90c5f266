#include <doctest/doctest.h>

#include <atomic>
#include <mutex>
#include <semaphore>
#include <string>
#include <thread>

#include "base/log.hpp"
#include "base/per_process.hpp"
#include "unit/child_process.hpp"

using namespace attnjit;
using namespace attnjit::test;

TEST_CASE("a child has fresh state of its own, and so has its child") {
  const base::PerProcess<int> number;
  *number = 7;
  CHECK(true_in_child([&] {
    const bool fresh = *number == 0;
    *number = 8;
    return fresh && *number == 8 && true_in_child([&] { return *number == 0; }) && *number == 8;
  }));
  CHECK(*number == 7);
}

TEST_CASE("a process sees what the states were of those that it descends from") {
  const base::PerProcess<std::atomic<int>> number;
  *number = 7;
  const auto inherited = [&](int value) {
    return number.inherited([&](const std::atomic<int>& each) { return each == value; });
  };
  CHECK_FALSE(inherited(7));
  CHECK(true_in_child([&] {
    *number = 8;
    return inherited(7) && !inherited(8) &&
           true_in_child([&] { return inherited(7) && inherited(8) && !inherited(0); });
  }));
}

TEST_CASE("threads of a child that come first share one state") {
  const base::PerProcess<int> number;
  CHECK(true_in_child([&] {
    int* seen[2] = {};
    std::jthread other([&] { seen[0] = &*number; });
    seen[1] = &*number;
    other.join();
    return seen[0] == seen[1];
  }));
}

TEST_CASE("state that another thread has locked at the fork is not the child's") {
  const base::PerProcess<std::mutex> mutex;
  const std::scoped_lock lock(*mutex);
  CHECK(true_in_child([&] {
    const std::scoped_lock own(*mutex);
    return true;
  }));
}

TEST_CASE("a child logs while a thread of its parent is in the sink") {
  std::binary_semaphore entered(0), leave(0);
  base::Log log(base::LogLevel::kWarning, [&](base::LogLevel, std::string_view text) {
    if (text != "block") return;
    entered.release();
    leave.acquire();
  });
  const std::jthread blocked([&] { log.warning("block"); });
  entered.acquire();
  const bool logged = true_in_child([&] {
    log.warning("from the child");
    log.warn_once("key", "from the child");
    return true;
  });
  leave.release();
  CHECK(logged);
}
