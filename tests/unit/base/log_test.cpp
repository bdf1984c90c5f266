#include "base/log.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "unit/terminal.hpp"

using namespace attnjit::base;
using attnjit::test::Terminal;

TEST_CASE("a log passes on what its level allows, formatted") {
  std::vector<std::pair<LogLevel, std::string>> seen;
  Log log(LogLevel::kInfo,
          [&](LogLevel level, std::string_view text) { seen.emplace_back(level, text); });
  log.warning("{} of {}", 1, 2);
  log.info("plain {{}}");
  log.debug("not shown");
  REQUIRE(seen.size() == 2);
  CHECK(seen[0] == std::pair(LogLevel::kWarning, std::string("1 of 2")));
  CHECK(seen[1] == std::pair(LogLevel::kInfo, std::string("plain {}")));
}

TEST_CASE("warn_once says a thing once per key, and takes braces as they are") {
  std::vector<std::string> seen;
  Log log(LogLevel::kWarning, [&](LogLevel, std::string_view text) { seen.emplace_back(text); });
  log.warn_once("a", "first {}");
  log.warn_once("a", "second");
  log.warn_once("b", "third");
  CHECK(seen == std::vector<std::string>{"first {}", "third"});
}

TEST_CASE("a line that the sink causes is dropped, and the next one is not") {
  std::vector<std::string> seen;
  Log* self = nullptr;
  Log log(LogLevel::kWarning, [&](LogLevel, std::string_view text) {
    seen.emplace_back(text);
    self->warning("nested in {}", text);
    self->warn_once("key", "nested once");
    if (text == "thrown") throw std::runtime_error("of the sink");
  });
  self = &log;
  log.warning("first");
  log.warning("thrown");
  log.warning("second");
  log.warn_once("key", "once");
  CHECK(seen == std::vector<std::string>{"first", "thrown", "second", "once"});
}

TEST_CASE("a thread that logs does not wait for the sink, which may wait for it") {
  std::vector<std::string> seen;
  std::promise<void> logged;
  bool returned = false;
  std::jthread other;
  Log* self = nullptr;
  Log log(LogLevel::kWarning, [&](LogLevel, std::string_view text) {
    seen.emplace_back(text);
    if (text != "first") return;
    other = std::jthread([&] {
      self->warning("second");
      self->warn_once("key", "third");
      logged.set_value();
    });
    returned = logged.get_future().wait_for(std::chrono::seconds(5)) == std::future_status::ready;
  });
  self = &log;
  log.warning("first");
  other.join();
  CHECK(returned);
  CHECK(seen == std::vector<std::string>{"first", "second", "third"});
}

TEST_CASE("deferred lines wait for their delivery, also where a call ends by an exception") {
  std::vector<std::string> seen;
  Log log(LogLevel::kWarning, [&](LogLevel, std::string_view text) { seen.emplace_back(text); });
  log.warning("first");
  log.defer();
  try {
    const Log::Delivery delivery(log);
    log.warning("second");
    log.warn_once("key", "third");
    CHECK(seen.size() == 1);
    throw std::runtime_error("of the call");
  } catch (const std::runtime_error&) {
  }
  CHECK(seen == std::vector<std::string>{"first", "second", "third"});
}

TEST_CASE("lines of other threads wait for their turn") {
  std::size_t lines = 0;
  Log* self = nullptr;
  Log log(LogLevel::kWarning, [&](LogLevel, std::string_view) {
    ++lines;
    self->warning("nested");
  });
  self = &log;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int j = 0; j < 100; ++j) log.warning("line");
      });
    }
  }
  CHECK(lines == 400);
}

TEST_CASE("progress on a terminal gives way to what comes next") {
  std::string shown;
  {
    const Terminal terminal;
    Log log;
    CHECK(log.shows_progress());
    log.progress("one");
    log.progress("two");
    log.warning("line");
    log.progress("three");
    log.progress("");
    log.progress("");
    log.warning("last");
    shown = terminal.read_to("last\r\n");
  }
  CHECK(shown ==
        "attnjit: one\r\x1b[Kattnjit: two\r\x1b[Kattnjit: warning: line\r\n"
        "attnjit: three\r\x1b[Kattnjit: warning: last\r\n");
}

TEST_CASE("progress is of the width of a terminal, and of one line") {
  std::string shown;
  {
    const Terminal terminal;
    Log log;
    log.progress(std::string(200, 'x') + "\n");
    log.warning("last");
    shown = terminal.read_to("last\r\n");
  }
  CHECK(shown.find("\r") < 80);
}

TEST_CASE("there is no progress for a sink, below warnings, and without a terminal") {
  std::size_t lines = 0;
  const Terminal terminal;
  Log with_sink(LogLevel::kWarning, [&](LogLevel, std::string_view) { ++lines; });
  with_sink.progress("not shown");
  CHECK(lines == 0);
  CHECK(!with_sink.shows_progress());
  CHECK(!Log(LogLevel::kError).shows_progress());
}
