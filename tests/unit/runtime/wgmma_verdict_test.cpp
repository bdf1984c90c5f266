// Kernels of wgmma of which the compiler says that they are slow, on a device that does not exist.
// No kernel is compiled: the cache holds some of which the facts are made up.
#include "runtime/load/wgmma_verdict.hpp"

#include <doctest/doctest.h>

#include "cache/bundle_writer.hpp"
#include "runtime/call/config_choice.hpp"
#include "runtime/call/dispatcher.hpp"
#include "runtime/call/plan_maker.hpp"
#include "runtime/load/plan_loader.hpp"
#include "unit/backward_fixtures.hpp"
#include "unit/fake_device.hpp"
#include "unit/known_kernels.hpp"
#include "unit/runtime_fixtures.hpp"
#include "unit/temp_directory.hpp"
#include "unit/tuner_fixtures.hpp"

using namespace attnjit;

namespace runtime_wgmma_verdict_test {
using codegen::Path;
using runtime::Engine;
using runtime::Tuning;
using test::serialized_facts;

namespace {

const codegen::Arch& arch() { return codegen::find_arch(test::kArch); }

ForwardArgs prefill_args(std::int64_t seqlen = 1000) {
  return test::forward_args({.batch = 1,
                             .heads_q = 2,
                             .heads_kv = 2,
                             .seqlen_q = seqlen,
                             .seqlen_kv = seqlen,
                             .head_dim = 128});
}
problem::Problem prefill(std::int64_t seqlen = 1000) {
  return problem::make_problem(prefill_args(seqlen));
}

// Spaces of configuration 0 alone.
Engine::Spaces empty_spaces() {
  const char* const json = R"({"schema": 3, "space": "none", "groups": []})";
  return {tuner::SearchSpace(json), tuner::BackwardSearchSpace(json)};
}

test::Variables with_cache(const test::TempDirectory& temp, test::Variables variables = {}) {
  variables.emplace("ATTNJIT_CACHE_DIR", (temp / "cache").string());
  variables.emplace("XDG_RUNTIME_DIR", temp.path().string());
  return variables;
}

/// Leaves the kernels of `problem` on disk: `facts` are those of wgmma's, and that of its fallback
/// is sound.
void keep_both(Engine& engine, const problem::Problem& problem, const compiler::Facts& facts) {
  const auto key = problem::plan_key(problem);
  const auto fallback = tuner::config_zero(key, codegen::without_wgmma(arch()));
  test::keep_known_kernels(engine, engine.plan(problem, arch()), facts);
  test::keep_known_kernels(engine, engine.plan(problem, arch(), fallback));
}

template <class Problem>
auto make_plan(runtime::PlanMaker& maker, const test::FakeDevice& device, const Problem& problem) {
  return maker.make(*device, problem, problem::plan_key(problem), Tuning::kAllowed);
}

// A record of wgmma, but not of its configuration 0.
template <class PlanKey>
tuner::BasicRecord<PlanKey> record_of(const Engine& engine, const test::FakeDevice& device,
                                      const PlanKey& key) {
  return test::make_record(tuner::BasicTuneKey<PlanKey>{
      runtime::device_class(cuda::current_device(*device)), key, engine.space<PlanKey>().name()});
}

}  // namespace

TEST_CASE("a wgmma kernel is slow if it was serialised or spills in its loop") {
  CHECK_FALSE(runtime::why_slow(compiler::Facts{}));
  CHECK(runtime::why_slow(serialized_facts()).value_or("") ==
        "was serialised by NVRTC 13.9.1 (C7510)");
  compiler::Facts facts{.spill_store_bytes = 200, .spill_load_bytes = 184};
  CHECK_FALSE(runtime::why_slow(facts));
  ++facts.spill_load_bytes;
  facts.nvrtc_version = "13.9.1";
  CHECK(runtime::why_slow(facts).value_or("") == "spills 385 bytes as NVRTC 13.9.1 compiles it");
}

TEST_CASE("calls run without a wgmma that is slow, and one warning says so") {
  const test::TempDirectory temp;
  const test::FakeDevice device;
  std::vector<std::string> warnings;
  Engine engine(test::environment(with_cache(temp, {{"DISABLE_AUTOTUNE", "1"}})),
                [&](base::LogLevel, std::string_view text) { warnings.emplace_back(text); });
  runtime::PlanMaker maker(engine);
  keep_both(engine, prefill(), {});
  const auto sound = make_plan(maker, device, prefill());
  CHECK(sound->spec().tunables.path == Path::kWgmma);
  CHECK(warnings.empty());

  ForwardArgs causal = prefill_args();
  causal.causal = true;
  causal.diagonal = Diagonal::kTopLeft;
  keep_both(engine, problem::make_problem(causal), serialized_facts());
  const auto slow = make_plan(maker, device, problem::make_problem(causal));
  CHECK(slow->spec().tunables.path == Path::kMma);
  causal.q.shape[2] = causal.out.shape[2] = 300;  // another plan with the same kernels
  CHECK(make_plan(maker, device, problem::make_problem(causal))->spec().tunables.path ==
        Path::kMma);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find("runs without wgmma") != std::string::npos);
  CHECK(warnings[0].find("wgmma q128 kv128 s2 was serialised by NVRTC 13.9.1 (C7510)") !=
        std::string::npos);
  CHECK(engine.cache().counters().builds == 0);
}

TEST_CASE("a bundle carries the verdict: nothing is compiled, nor has to be allowed") {
  const test::TempDirectory temp;
  const test::FakeDevice device;
  const auto path = temp / "kernels.atkb";
  {
    Engine engine(test::environment({{"ATTNJIT_CACHE_DIR", "0"}}));
    cache::BundleWriter writer;
    const auto add = [&](const cache::Entry& entry) { writer.add(entry); };
    const auto fallback =
        tuner::config_zero(problem::plan_key(prefill()), codegen::without_wgmma(arch()));
    test::for_known_kernels(engine, engine.plan(prefill(), arch()), serialized_facts(), add);
    test::for_known_kernels(engine, engine.plan(prefill(), arch(), fallback), {}, add);
    writer.write(path);
  }
  base::Environment environment = test::environment({{"ATTNJIT_BUNDLE_PATH", path.string()},
                                                     {"ATTNJIT_CACHE_DIR", "0"},
                                                     {"ATTNJIT_JIT", "forbid"}});
  environment.nvrtc_path = "/nonexistent/libnvrtc.so.13";
  Engine engine(environment);
  runtime::PlanMaker maker(engine);
  CHECK(make_plan(maker, device, prefill())->spec().tunables.path == Path::kMma);
  CHECK(engine.cache().counters().builds == 0);
}

TEST_CASE("a record that names a slow wgmma gives way likewise") {
  const test::TempDirectory temp;
  const test::FakeDevice device;
  Engine engine(test::environment(with_cache(temp, {{"ATTNJIT_AUTOTUNE", "require"}})));
  runtime::PlanMaker maker(engine);
  const auto key = problem::plan_key(prefill());
  auto record = record_of(engine, device, key);
  keep_both(engine, prefill(), {});  // configuration 0 is sound
  test::keep_known_kernels(engine, engine.plan(prefill(), arch(), record.config));
  engine.records().publish(record, engine.records().find_exact(record.key));
  CHECK(make_plan(maker, device, prefill())->spec().tunables == record.config);
  CHECK(maker.counters().record_hits == 1);

  record.config.block_kv = 64;
  test::keep_known_kernels(engine, engine.plan(prefill(), arch(), record.config),
                           serialized_facts());
  engine.records().publish(record, engine.records().find_exact(record.key));
  const auto plan = make_plan(maker, device, prefill());
  CHECK(plan->spec().tunables == tuner::config_zero(key, codegen::without_wgmma(arch())));
  CHECK(maker.counters().record_hits == 1);
}

TEST_CASE("so does a backward's") {
  const test::TempDirectory temp;
  const test::FakeDevice device;
  Engine engine(test::environment(with_cache(temp, {{"ATTNJIT_AUTOTUNE", "cached"}})));
  runtime::PlanMaker maker(engine);
  const auto problem = problem::make_problem(test::backward_args(prefill_args()));
  const auto key = problem::plan_key(problem);
  auto record = record_of(engine, device, key);
  record.config = tuner::config_zero(key, arch());
  engine.records().publish(record, engine.records().find_exact(record.key));
  const auto fallback = tuner::config_zero(key, codegen::without_wgmma(arch()));
  test::keep_known_kernels(engine, engine.plan(problem, arch(), record.config), serialized_facts());
  test::keep_known_kernels(engine, engine.plan(problem, arch(), fallback));
  CHECK(make_plan(maker, device, problem)->spec().tunables == fallback);
  CHECK(engine.cache().counters().builds == 0);
}

TEST_CASE("a choice that may compile nothing goes by what is on disk") {
  const test::TempDirectory temp;
  Engine engine(test::environment(with_cache(temp, {{"DISABLE_AUTOTUNE", "1"}})));
  const auto choose = [&] {
    return runtime::choose_plan<launch::ForwardPass>(engine, prefill(),
                                                     problem::plan_key(prefill()), arch(), {},
                                                     runtime::Compiling::kForbidden);
  };
  CHECK(choose().config.path == Path::kWgmma);
  keep_both(engine, prefill(), serialized_facts());
  const auto choice = choose();
  CHECK(choice.config.path == Path::kMma);
  CHECK(choice.why.find("path mma: wgmma q128 kv128 s2 was serialised") != std::string::npos);
  CHECK(engine.cache().counters().builds == 0);
}

TEST_CASE("a problem whose wgmma is slow is tuned over what it can run") {
  const test::TempDirectory temp;
  const test::FakeDevice device;
  Engine engine(test::environment(with_cache(temp)), {}, empty_spaces());
  const ForwardArgs args = prefill_args(128);
  const auto problem = problem::make_problem(args);
  keep_both(engine, problem, serialized_facts());
  const auto fallback =
      tuner::config_zero(problem::plan_key(problem), codegen::without_wgmma(arch()));
  const auto report = runtime::ForwardTuner(engine).tune(*device, problem);
  CHECK(report.candidates == 1);
  CHECK(report.record.config == fallback);
  CHECK(engine.cache().counters().builds == 0);
}

TEST_CASE("a workspace size suffices for what takes the place of a slow wgmma") {
  const test::TempDirectory temp;
  const test::FakeDevice device;
  const auto environment = test::environment(with_cache(temp));
  runtime::Dispatcher dispatcher(environment, {}, device.driver(), empty_spaces());
  Engine engine(environment);
  ForwardArgs args = prefill_args(128);
  args.k.shape[2] = args.v.shape[2] = 40000;
  const auto problem = problem::make_problem(args);
  const auto bytes = [&](const codegen::Arch& target) {
    const auto config = tuner::config_zero(problem::plan_key(problem), target);
    return launch::workspace_layout(engine.plan(problem, arch(), config), problem).bytes;
  };
  CHECK(bytes(codegen::without_wgmma(arch())) > bytes(arch()));
  CHECK(dispatcher.forward_workspace_size(args) >= bytes(codegen::without_wgmma(arch())));
}

}  // namespace runtime_wgmma_verdict_test
