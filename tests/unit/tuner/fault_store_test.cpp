#include "tuner/fault_store.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "unit/temp_directory.hpp"
#include "unit/tuner_fixtures.hpp"

using namespace attnjit;
using tuner::Fault;
using tuner::FaultStore;

namespace {

Fault fault(char digit = 'a') {
  return {.id = std::string(64, digit),
          .device = test::device_class(),
          .pass = "forward",
          .problem = "bf16",
          .config = "q64 kv64",
          .why = "signal 11 (Segmentation fault)",
          .library = "0.1.0",
          .time = 1'700'000'000};
}

}  // namespace

TEST_CASE("a fault is found by the next process, and only under its own id") {
  const test::TempDirectory temp;
  base::Log log(base::LogLevel::kError);
  FaultStore store(temp / "cache", log);
  CHECK_FALSE(store.has(fault().id));
  CHECK_FALSE(store.publish(fault()));
  const FaultStore next(temp / "cache", log);
  CHECK(next.has(fault().id));
  CHECK_FALSE(next.has(fault('b').id));
  REQUIRE(next.list().size() == 1);
  CHECK(next.list()[0].why == fault().why);
  CHECK(next.list()[0].device == fault().device);
  CHECK(next.verify().empty());
  std::filesystem::remove(next.place(fault().id));
  CHECK_FALSE(next.has(fault().id));
}

TEST_CASE("a file that holds no fault, or another one, counts as absent, and verify() names it") {
  const test::TempDirectory temp;
  base::Log log(base::LogLevel::kError);
  FaultStore store(temp / "cache", log);
  store.publish(fault());
  std::filesystem::copy(store.place(fault().id), store.place(fault('b').id));
  std::ofstream(store.place(fault('c').id)) << "{\"id\": 3}";
  const FaultStore next(temp / "cache", log);
  CHECK_FALSE(next.has(fault('b').id));
  CHECK_FALSE(next.has(fault('c').id));
  CHECK(next.list().size() == 1);
  const auto bad = next.verify();
  REQUIRE(bad.size() == 2);
  CHECK(bad[0].path == next.place(fault('b').id));
  CHECK(bad[0].reason == "it holds another fault than its name says");
  CHECK(bad[1].path == next.place(fault('c').id));
}

TEST_CASE("what cannot be kept on disk is known in this process, and publish() says so") {
  const test::TempDirectory temp;
  base::Log log(base::LogLevel::kError);
  FaultStore memory(std::nullopt, log);
  CHECK(memory.publish(fault()));
  CHECK(memory.has(fault().id));
  CHECK(memory.list().empty());
  std::filesystem::create_directory(temp / "real");
  std::filesystem::create_directory_symlink(temp / "real", temp / "link");
  FaultStore linked(temp / "link", log);
  CHECK(linked.publish(fault()));
  CHECK(linked.has(fault().id));
  CHECK(std::filesystem::is_empty(temp / "real"));
}
