#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/log.hpp"

using namespace attnjit::base;

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
