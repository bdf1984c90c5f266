// Kernels that warmup compiles on a machine without a GPU are those that devices ask for: the
// binary fills a cache, and a process with a device that does not exist uses it.
#include "command_line.hpp"
#include "runtime/call/dispatcher.hpp"
#include "runtime/load/plan_loader.hpp"
#include "tuner/space.hpp"
#include "unit/backward_fixtures.hpp"
#include "unit/fake_device.hpp"
#include "unit/runtime_fixtures.hpp"
#include "unit/tuner_fixtures.hpp"

namespace attnjit::test::warm_device_test {
namespace {

constexpr const char* kManifest = R"({"schema": 1, "archs": ["sm_90a"], "problems": [
    {"name": "small", "heads": [2, 2], "head_dim": 32, "seqlens": [[128, 128], [1, 500]],
     "pass": ["forward", "backward"]}]})";

ForwardArgs args_of(std::int64_t seqlen_q, std::int64_t seqlen_kv) {
  return forward_args({.batch = 1,
                       .heads_q = 2,
                       .heads_kv = 2,
                       .seqlen_q = seqlen_q,
                       .seqlen_kv = seqlen_kv,
                       .head_dim = 32,
                       .head_dim_v = 32});
}

/// A machine whose devices have the cache of `attnjit`, and may not compile.
class Devices {
 public:
  explicit Devices(const CommandLine& attnjit) : attnjit_(attnjit) {}

  static void become(int sm_count) {
    cuda::stub().device_attributes[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT] = sm_count;
  }

  tuner::DeviceClass kind(int sm_count) const {
    become(sm_count);
    return runtime::device_class(cuda::current_device(*device_));
  }

  /// Prepares all of kManifest on a device of so many SMs; the message of what fails, or "".
  std::string prepare_all(int sm_count) const {
    become(sm_count);
    runtime::Dispatcher dispatcher(environment({{"ATTNJIT_CACHE_DIR", attnjit_.cache().string()},
                                                {"XDG_RUNTIME_DIR", attnjit_.file("run")},
                                                {"ATTNJIT_JIT", "forbid"}}),
                                   {}, device_.driver());
    try {
      for (const ForwardArgs& args : {args_of(128, 128), args_of(1, 500)}) {
        dispatcher.prepare_forward(args);
        dispatcher.prepare_backward(backward_args(args));
      }
    } catch (const Error& error) {
      return error.what();
    }
    CHECK(dispatcher.counters().compiles == 0);
    CHECK(dispatcher.counters().plans == 4);
    return "";
  }

 private:
  const CommandLine& attnjit_;
  FakeDevice device_;
};

TEST_CASE("warmup --check says of devices of 114 and 132 SMs what they will find") {
  const CommandLine attnjit;
  const CommandLine::Variables may_tune = {{"DISABLE_AUTOTUNE", "0"}};
  write_file(attnjit.file("m.json"), kManifest);
  const std::vector<std::string> warmup = {"warmup", "--manifest", attnjit.file("m.json")};
  std::vector<std::string> check = warmup;
  check.emplace_back("--check");
  const Devices devices(attnjit);
  CHECK(attnjit(check, may_tune).code == 4);
  for (const int sm_count : {114, 132}) {
    CHECK(devices.prepare_all(sm_count).find("ATTNJIT_JIT=forbid") != std::string::npos);
  }

  REQUIRE(attnjit(warmup, may_tune).code == 0);
  CHECK(attnjit(check, may_tune).code == 0);
  for (const int sm_count : {114, 132}) CHECK(devices.prepare_all(sm_count) == "");

  // A record asks for another kernel, on devices of its own kind only.
  tuner::TuneKey key{devices.kind(132), problem::plan_key(problem::make_problem(args_of(128, 128))),
                     tuner::SearchSpace().name()};
  write_file(attnjit.file("records.jsonl"), to_json(make_record(key)) + "\n");
  REQUIRE(attnjit({"records", "import", attnjit.file("records.jsonl")}).code == 0);
  CHECK(attnjit(check, may_tune).code == 4);
  CHECK(devices.prepare_all(114) == "");
  CHECK(devices.prepare_all(132).find("ATTNJIT_JIT=forbid") != std::string::npos);
  REQUIRE(attnjit(warmup, may_tune).code == 0);
  CHECK(attnjit(check, may_tune).code == 0);
  for (const int sm_count : {114, 132}) CHECK(devices.prepare_all(sm_count) == "");
}

}  // namespace
}  // namespace attnjit::test::warm_device_test
