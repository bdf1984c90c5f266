// Tuning on a device that does not exist: real compiles, made-up times.
#include <doctest/doctest.h>

#include <string>

#include "attnjit/error.hpp"
#include "runtime/call/config_choice.hpp"
#include "runtime/call/plan_maker.hpp"
#include "runtime/load/plan_loader.hpp"
#include "runtime/tune/problem_tuner.hpp"
#include "tuner/config_zero.hpp"
#include "unit/fake_device.hpp"
#include "unit/known_kernels.hpp"
#include "unit/tuning_fixtures.hpp"

using namespace attnjit;
using attnjit::test::FakeDevice;
using attnjit::test::Machine;
using attnjit::test::small_backward;
using attnjit::test::small_problem;
using runtime::ConfigSource;
using runtime::Engine;
using runtime::Tuning;
using tuner::Verdict;

namespace {

tuner::TuneKey key(Engine& engine, const FakeDevice& device) {
  return {runtime::device_class(cuda::current_device(*device)), problem::plan_key(small_problem()),
          engine.space<problem::PlanKey>().name()};
}
tuner::BackwardTuneKey backward_key(Engine& engine, const FakeDevice& device) {
  return {runtime::device_class(cuda::current_device(*device)), problem::plan_key(small_backward()),
          engine.space<problem::BackwardPlanKey>().name()};
}

const codegen::Arch& arch() { return codegen::find_arch("sm_90a"); }

// Launches of blocks of 64 threads take half as long as the others.
void prefer_two_warps() {
  FakeDevice::milliseconds() = [](const CUlaunchConfig& launch) {
    return launch.blockDimX == 64 ? 0.05f : 0.1f;
  };
}

// A legal configuration that the search space does not hold.
tuner::Record poisoned(Engine& engine, const FakeDevice& device) {
  tuner::Record record;
  record.key = key(engine, device);
  record.config = tuner::config_zero(record.key.plan, arch());
  record.config.block_kv = 32;
  record.config.num_stages = 4;
  record.verdict = "gain";
  record.us = 1;
  record.mad = 0.01;
  record.default_us = 2;
  return record;
}

}  // namespace

TEST_CASE("the fastest candidate wins, and the record says how") {
  const Machine machine;
  const FakeDevice device;
  prefer_two_warps();
  Engine engine = machine.start();
  runtime::ForwardTuner tuner(engine);
  const auto report = tuner.tune(*device, small_problem());
  CHECK(report.note.empty());
  CHECK(report.skipped == 0);
  CHECK(report.candidates == 3);
  CHECK(report.result.verdict == Verdict::kGain);
  CHECK(report.record.config.num_warps == 2);
  CHECK(report.record.us == doctest::Approx(50));
  CHECK(report.record.gain() == doctest::Approx(0.5));
  CHECK(report.record.exact == problem::describe(small_problem()));
  CHECK(report.record.nvrtc.find('.') != std::string::npos);
  CHECK(report.record.driver == 13000);
  CHECK(tuner.tunes() == 1);
  CHECK(tuner.timing_launches() > 50);

  // The next process.
  Engine next = machine.start();
  const auto choice = runtime::find_config(
      next, small_problem(), problem::plan_key(small_problem()), arch(), key(next, device).device);
  CHECK(choice.source == ConfigSource::kRecord);
  CHECK(choice.config == report.record.config);
  CHECK(choice.why.find("50.0 % faster") != std::string::npos);
}

TEST_CASE("a candidate that spills, or was serialised, is left out however fast it is") {
  const FakeDevice device;
  prefer_two_warps();
  for (const compiler::Facts& facts :
       {compiler::Facts{.spill_store_bytes = 4}, compiler::Facts{.spill_load_bytes = 4},
        test::serialized_facts()}) {
    const Machine machine;
    Engine engine = machine.start();
    const auto family = problem::plan_key(small_problem()).family;
    const auto configs =
        engine.space<problem::PlanKey>().candidates(problem::plan_key(small_problem()), arch());
    REQUIRE(configs.at(1).num_warps == 2);
    test::keep_known_kernels(engine, engine.plan(family, arch(), configs[1]), facts);
    const auto report = runtime::ForwardTuner(engine).tune(*device, small_problem());
    CHECK(report.rejected == 1);
    CHECK(report.result.verdict == Verdict::kNoGain);
  }
}

TEST_CASE("a backward is tuned likewise, and its plan runs the winner") {
  const Machine machine;
  const FakeDevice device;
  FakeDevice::milliseconds() = [](const CUlaunchConfig& launch) {
    return launch.blockDimX == 128 ? 0.05f : 0.1f;  // the candidate's kernel of dq, the last one
  };
  Engine engine = machine.start();
  runtime::BackwardTuner tuner(engine);
  const auto report = tuner.tune(*device, small_backward());
  CHECK(report.note.empty());
  CHECK(report.candidates == 2);
  CHECK(report.rejected == 0);
  CHECK(report.result.verdict == Verdict::kGain);
  CHECK(report.record.config.dq.num_warps == 4);
  CHECK(report.record.gain() == doctest::Approx(0.5));
  CHECK(report.record.exact == problem::describe(small_backward()));

  // The next process finds it, and does not take it for the forward's.
  Engine next = machine.start({{"ATTNJIT_AUTOTUNE", "cached"}});
  CHECK(next.records().find_exact(backward_key(next, device)));
  CHECK_FALSE(next.records().find(key(next, device)));
  runtime::PlanMaker maker(next);
  CHECK(
      maker.make(*device, small_backward(), problem::plan_key(small_backward()), Tuning::kAllowed)
          ->spec()
          .tunables.dq.num_warps == 4);
  CHECK(maker.counters().record_hits == 1);
  CHECK(maker.counters().tunes == 0);
  Engine off = machine.start({{"DISABLE_AUTOTUNE", "1"}});
  const auto choice =
      runtime::find_config(off, small_backward(), problem::plan_key(small_backward()), arch(),
                           backward_key(off, device).device);
  CHECK(choice.source == ConfigSource::kConfigZero);
  CHECK(choice.why.find("DISABLE_AUTOTUNE") != std::string::npos);
  Engine require = machine.start({{"ATTNJIT_AUTOTUNE", "require"}, {"ATTNJIT_CACHE_DIR", "0"}});
  CHECK_THROWS_WITH_AS(runtime::PlanMaker(require).make(*device, small_backward(),
                                                        problem::plan_key(small_backward()), {}),
                       doctest::Contains("\"deterministic\":true"), Error);
}

TEST_CASE("where nothing is faster configuration 0 stays, and that is kept too") {
  const Machine machine;
  const FakeDevice device;
  Engine engine = machine.start();
  const auto report = runtime::ForwardTuner(engine).tune(*device, small_problem());
  CHECK(report.result.verdict == Verdict::kNoGain);
  Engine next = machine.start();
  const auto record = next.records().find_exact(key(next, device));
  REQUIRE(record);
  CHECK(record->verdict == "no_gain");
  CHECK(record->config == tuner::config_zero(record->key.plan, arch()));
}

TEST_CASE("the budget covers compiling: what is not ready is skipped") {
  const Machine machine;
  const FakeDevice device;
  Engine engine = machine.start();
  runtime::ForwardTuner tuner(engine);
  const auto report = tuner.tune(*device, small_problem(), std::chrono::milliseconds(0));
  CHECK(report.result.verdict == Verdict::kBudget);
  CHECK(report.skipped == report.candidates - 1);
  CHECK_FALSE(report.note.empty());
  CHECK(tuner.timing_launches() == 0);
  // This process does not try again; the next one may.
  CHECK(engine.records().recall(key(engine, device)));
  Engine next = machine.start();
  CHECK_FALSE(next.records().find_exact(key(next, device)));
}

TEST_CASE("memory that does not suffice is configuration 0, and no error") {
  const Machine machine;
  const FakeDevice device;
  cuda::stub().results["alloc"] = CUDA_ERROR_OUT_OF_MEMORY;
  Engine engine = machine.start();
  const auto report = runtime::ForwardTuner(engine).tune(*device, small_problem());
  CHECK(report.result.verdict == Verdict::kBudget);
  CHECK(report.note.find("out of memory") != std::string::npos);
  CHECK(report.record.config.block_q == 64);
}

TEST_CASE("a candidate that takes the context along ends the tuning, and nothing is kept") {
  const Machine machine;
  const FakeDevice device;
  FakeDevice::run() = [](const CUlaunchConfig& launch) {
    if (launch.blockDimX == 64) FakeDevice::lose_context();
  };
  Engine engine = machine.start();
  try {
    runtime::ForwardTuner(engine).tune(*device, small_problem());
    FAIL_CHECK("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kCuda);
    CHECK_MESSAGE(std::string(error.what()).starts_with("q32 kv64 s2 w2 "), error.what());
  }
  CHECK_FALSE(engine.records().find_exact(key(engine, device)));
}

TEST_CASE("under DISABLE_AUTOTUNE the tuner refuses") {
  const Machine machine;
  const FakeDevice device;
  Engine engine = machine.start({{"DISABLE_AUTOTUNE", "1"}});
  runtime::ForwardTuner tuner(engine);
  CHECK_THROWS_WITH_AS(tuner.tune(*device, small_problem()), doctest::Contains("DISABLE_AUTOTUNE"),
                       Error);
  CHECK(tuner.timing_launches() == 0);
}

TEST_CASE("each mode does what the list says") {
  struct Row {
    const char* mode;
    bool with_record;
    std::uint64_t tunes, record_hits;
  };
  const Row rows[] = {{"on", false, 1, 0},    {"on", true, 0, 1},    {"cached", false, 0, 0},
                      {"cached", true, 0, 1}, {"force", true, 1, 0}, {"off", true, 0, 0},
                      {"require", true, 0, 1}};
  const FakeDevice device;
  const Machine machine;
  {
    Engine engine = machine.start();
    runtime::ForwardTuner(engine).tune(*device, small_problem());
  }
  for (const Row& row : rows) {
    CAPTURE(std::string(row.mode));
    CAPTURE(row.with_record);
    machine.forget_records();
    Engine engine = machine.start({{"ATTNJIT_AUTOTUNE", row.mode}});
    if (row.with_record) {
      Engine before = machine.start();
      before.records().publish(poisoned(before, device));
    }
    runtime::PlanMaker maker(engine);
    const auto plan =
        maker.make(*device, small_problem(), problem::plan_key(small_problem()), Tuning::kAllowed);
    CHECK(maker.counters().tunes == row.tunes);
    CHECK(maker.counters().record_hits == row.record_hits);
    CHECK((maker.counters().timing_launches > 0) == (row.tunes > 0));
    CHECK((plan->spec().tunables.num_stages == 4) == (row.record_hits > 0));
    // Nothing is tuned twice.
    maker.make(*device, small_problem(), problem::plan_key(small_problem()), Tuning::kAllowed);
    CHECK(maker.counters().tunes == row.tunes);
  }
}

TEST_CASE("require without a record is an error that says how to make one") {
  const Machine machine;
  const FakeDevice device;
  Engine engine = machine.start({{"ATTNJIT_AUTOTUNE", "require"}});
  runtime::PlanMaker maker(engine);
  CHECK_THROWS_WITH_AS(
      maker.make(*device, small_problem(), problem::plan_key(small_problem()), Tuning::kAllowed),
      doctest::Contains("attnjit tune --manifest"), Error);
  CHECK_THROWS_WITH_AS(
      maker.make(*device, small_problem(), problem::plan_key(small_problem()), Tuning::kAllowed),
      doctest::Contains("\"seqlens\":[60,192]"), Error);
}

TEST_CASE("a poisoned record is used, but never under DISABLE_AUTOTUNE") {
  const Machine machine;
  const FakeDevice device;
  {
    Engine engine = machine.start();
    engine.records().publish(poisoned(engine, device));
  }
  const auto stages = [&](const test::Variables& variables) {
    Engine engine = machine.start(variables);
    runtime::PlanMaker maker(engine);
    const int result =
        maker.make(*device, small_problem(), problem::plan_key(small_problem()), Tuning::kAllowed)
            ->spec()
            .tunables.num_stages;
    CHECK(maker.counters().timing_launches == 0);
    return result;
  };
  CHECK(stages({{"ATTNJIT_AUTOTUNE", "cached"}}) == 4);
  const int zero = tuner::config_zero(problem::plan_key(small_problem()), arch()).num_stages;
  for (const char* mode : {"on", "cached", "force", "require", "off"}) {
    CAPTURE(std::string(mode));
    CHECK(stages({{"ATTNJIT_AUTOTUNE", mode}, {"DISABLE_AUTOTUNE", "1"}}) == zero);
  }
  CHECK(stages({{"DISABLE_AUTOTUNE", "off"}}) == 4);
}

TEST_CASE("a shipped record spares the tuning, and is not read under DISABLE_AUTOTUNE") {
  const Machine machine;
  const FakeDevice device;
  Engine author = machine.start();
  const std::string lines = to_json(poisoned(author, device)) + '\n';
  for (const bool disabled : {false, true}) {
    Engine engine = machine.start({{"DISABLE_AUTOTUNE", disabled ? "1" : "0"}}, lines);
    runtime::PlanMaker maker(engine);
    const auto plan =
        maker.make(*device, small_problem(), problem::plan_key(small_problem()), Tuning::kAllowed);
    CHECK((plan->spec().tunables.num_stages == 4) == !disabled);
    CHECK(maker.counters().tunes == 0);
    CHECK(maker.counters().record_hits == (disabled ? 0 : 1));
  }
}

TEST_CASE("a neighbour's record stands in, and is looked at again for this problem") {
  const Machine machine;
  const FakeDevice device;
  Engine engine = machine.start({{"ATTNJIT_AUTOTUNE", "cached"}});
  tuner::Record record = poisoned(engine, device);
  record.key.plan.bucket_kv = 512;
  engine.records().publish(record);
  const auto choice = runtime::find_config(
      engine, small_problem(), problem::plan_key(small_problem()), arch(), record.key.device);
  CHECK(choice.source == ConfigSource::kNeighbour);
  CHECK(choice.config.num_stages == 4);
  CHECK(choice.why.find("lk <= 512") != std::string::npos);
  // One that gained nothing tells that configuration 0 is good, which may be another here.
  record.verdict = "no_gain";
  engine.records().publish(record, engine.records().find_exact(record.key));
  const auto zero = runtime::find_config(
      engine, small_problem(), problem::plan_key(small_problem()), arch(), record.key.device);
  CHECK(zero.source == ConfigSource::kNeighbour);
  CHECK(zero.config == tuner::config_zero(problem::plan_key(small_problem()), arch()));
  CHECK(zero.why.starts_with("configuration 0 of these sizes, not the record"));
  // Without a device there are no records.
  CHECK(
      runtime::find_config(engine, small_problem(), problem::plan_key(small_problem()), arch(), {})
          .source == ConfigSource::kConfigZero);
}

TEST_CASE("methods of dq that suit few sizes serve those that were measured, and no neighbours") {
  for (const codegen::DqMethod method :
       {codegen::DqMethod::kOwnKvHead, codegen::DqMethod::kFirstStores}) {
    const Machine machine;
    const FakeDevice device;
    Engine engine = machine.start({{"ATTNJIT_AUTOTUNE", "cached"}});
    const BackwardArgs args = test::backward_args(test::small_args(16));  // wgmma serves it
    const auto problem = problem::make_problem(args);
    tuner::BackwardRecord record;
    record.key = backward_key(engine, device);
    record.key.plan = problem::plan_key(problem);
    record.config = tuner::config_zero(record.key.plan, arch());
    record.config.dq_method = method;
    record.config.split = false;
    record.verdict = "gain";
    record.us = 1;
    record.mad = 0.01;
    record.default_us = 2;
    const problem::BackwardPlanKey key = record.key.plan;
    for (const bool exact : {false, true}) {
      record.key.plan.bucket_planes = exact ? key.bucket_planes : 4 * key.bucket_planes;
      engine.records().publish(record);
      const auto choice = runtime::find_config(engine, problem, key, arch(), record.key.device);
      CHECK(choice.source == (exact ? ConfigSource::kRecord : ConfigSource::kNeighbour));
      CHECK((choice.config == record.config) == exact);
    }
  }
}
