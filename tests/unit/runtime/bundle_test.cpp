// A process with a bundle: its plans, without a compiler and without tuning.
#include <doctest/doctest.h>

#include <string>

#include "attnjit/error.hpp"
#include "cache/bundle_writer.hpp"
#include "runtime/call/dispatcher.hpp"
#include "runtime/call/plan_maker.hpp"
#include "runtime/load/plan_loader.hpp"
#include "tuner/config_zero.hpp"
#include "unit/cache_fixtures.hpp"
#include "unit/fake_device.hpp"
#include "unit/forward_fixtures.hpp"
#include "unit/runtime_fixtures.hpp"
#include "unit/silent_driver.hpp"
#include "unit/temp_directory.hpp"

using namespace attnjit;

namespace runtime_bundle_test {

namespace {

// Rows of 12 elements are not aligned, so that configuration 0 is on path mma.
ForwardArgs small_args() {
  return test::forward_args({.batch = 1, .seqlen_q = 60, .head_dim = 12, .head_dim_v = 12});
}

/// A record whose configuration is not configuration 0.
tuner::Record make_record(const problem::PlanKey& key, const tuner::DeviceClass& device) {
  tuner::Record record;
  record.key = {device, key, tuner::SearchSpace().name()};
  record.config = tuner::config_zero(key, codegen::find_arch(device.arch));
  record.config.block_q = 32;
  record.config.num_warps = 2;
  record.exact = "tuned elsewhere";
  record.verdict = "gain";
  record.us = 50;
  record.mad = 0.25;
  record.default_us = 100;
  return record;
}

/// Puts the kernels of small_args() for `arch` into a bundle: those of `record`, which then goes
/// with them, or of configuration 0.
void write_bundle(const std::filesystem::path& path, const char* arch_name,
                  const tuner::Record* record = nullptr) {
  runtime::Engine engine(test::environment({{"ATTNJIT_CACHE_DIR", "0"}}));
  const codegen::Arch& arch = codegen::find_arch(arch_name);
  const problem::Problem problem = problem::make_problem(small_args());
  cache::BundleWriter writer;
  const auto config = record ? std::optional(record->config) : std::nullopt;
  for (const launch::StepSpec& step : engine.plan(problem, arch, config).steps) {
    writer.add(*engine.kernel(step.source, arch, problem::problem_text(problem)));
  }
  if (record != nullptr) {
    writer.add_record(tuner::RecordStore::id(record->key), arch_name, to_json(*record));
  }
  writer.write(path);
}

/// An environment that has the bundle and nothing to compile with.
base::Environment with_bundle(const std::filesystem::path& bundle, test::Variables variables = {}) {
  variables.emplace("ATTNJIT_BUNDLE_PATH", bundle.string());
  variables.emplace("ATTNJIT_CACHE_DIR", "0");
  base::Environment environment = test::environment(variables);
  environment.nvrtc_path = "/nonexistent/libnvrtc.so.13";
  return environment;
}

}  // namespace

TEST_CASE("with a bundle, forbidden compiles and no NVRTC to be found, a call has its plan") {
  const test::TempDirectory temp;
  const auto path = temp / "kernels.atkb";
  write_bundle(path, "sm_80");  // what the silent driver's device is
  const std::string before = test::slurp(path);
  runtime::Dispatcher dispatcher(with_bundle(path, {{"ATTNJIT_JIT", "forbid"}}), {},
                                 test::silent_driver());
  CHECK_NOTHROW(dispatcher.forward(small_args(), nullptr, {}));
  const Counters counters = dispatcher.counters();
  CHECK(counters.plans == 1);
  CHECK(counters.compiles == 0);
  CHECK(counters.disk_hits == 0);
  CHECK(counters.bundle_hits == 2);
  CHECK(counters.memory_hits == 0);
  CHECK(counters.tunes == 0);
  CHECK(test::slurp(path) == before);

  ForwardArgs other = small_args();
  other.causal = true;
  other.diagonal = Diagonal::kTopLeft;
  CHECK_THROWS_AS(dispatcher.forward(other, nullptr, {}), Error);
}

TEST_CASE("a bundle's record chooses the configuration, and nothing is tuned or compiled") {
  const test::TempDirectory temp;
  const test::FakeDevice device;
  const auto path = temp / "kernels.atkb";
  const problem::Problem problem = problem::make_problem(small_args());
  const problem::PlanKey key = problem::plan_key(problem);
  const tuner::Record record =
      make_record(key, runtime::device_class(cuda::current_device(*device)));
  write_bundle(path, "sm_90a", &record);

  runtime::Engine engine(with_bundle(path));  // ATTNJIT_AUTOTUNE is on
  runtime::PlanMaker maker(engine);
  const auto plan = maker.make(*device, problem, key, runtime::Tuning::kAllowed);
  CHECK(plan->spec().tunables == record.config);
  CHECK(maker.counters().record_hits == 1);
  CHECK(maker.counters().tunes == 0);
  CHECK(maker.counters().timing_launches == 0);
  CHECK(engine.cache().counters().builds == 0);
  CHECK(engine.cache().counters().bundle_hits == plan->spec().steps.size());
}

}  // namespace runtime_bundle_test
