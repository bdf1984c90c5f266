// An engine whose plans take one path, on a device that does not exist. No kernel is compiled.
#include <doctest/doctest.h>

#include "attnjit/error.hpp"
#include "runtime/call/plan_maker.hpp"
#include "tuner/config_zero.hpp"
#include "unit/backward_fixtures.hpp"
#include "unit/fake_device.hpp"
#include "unit/known_kernels.hpp"
#include "unit/runtime_fixtures.hpp"
#include "unit/temp_directory.hpp"

using namespace attnjit;

namespace runtime_path_test {
using codegen::Path;

namespace {

const codegen::Arch& arch() { return codegen::find_arch(test::kArch); }

ForwardArgs prefill_args() {
  return test::forward_args({.seqlen_q = 1000, .seqlen_kv = 1000, .head_dim = 128});
}

/// A process that tunes what it may, and takes only `path`.
struct Process {
  test::TempDirectory temp;
  test::FakeDevice device;
  runtime::Engine engine;
  runtime::PlanMaker maker{engine};

  explicit Process(Path path)
      : engine(test::environment({{"ATTNJIT_CACHE_DIR", (temp / "cache").string()},
                                  {"XDG_RUNTIME_DIR", temp.path().string()}}),
               {}, {}, path) {}

  // The path of the plan of `problem`, whose kernels are there if it has `config`; `facts` are
  // those of the main one.
  template <class Problem, class Tunables>
  Path plan(const Problem& problem, const Tunables& config, const compiler::Facts& facts = {}) {
    test::keep_known_kernels(engine, engine.plan(problem, arch(), config), facts);
    const auto key = problem::plan_key(problem);
    const auto plan = maker.make(*device, problem, key, runtime::Tuning::kAllowed);
    CHECK(maker.counters().tunes == 0);
    CHECK(maker.counters().record_hits == 0);
    CHECK(engine.cache().counters().builds == 0);
    return codegen::main_path(plan->spec().tunables);
  }
};

}  // namespace

TEST_CASE("an engine of path mma leaves wgmma alone, and tunes nothing") {
  Process process(Path::kMma);
  const auto problem = problem::make_problem(prefill_args());
  const auto key = problem::plan_key(problem);
  CHECK(tuner::config_zero(key, arch()).path == Path::kWgmma);
  CHECK(process.plan(problem, tuner::config_zero(key, codegen::without_wgmma(arch()))) ==
        Path::kMma);
}

TEST_CASE("one of path wgmma takes it, even a slow one") {
  Process process(Path::kWgmma);
  const auto forward = problem::make_problem(prefill_args());
  CHECK(process.plan(forward, tuner::config_zero(problem::plan_key(forward), arch()),
                     test::serialized_facts()) == Path::kWgmma);
  const auto backward = problem::make_problem(test::backward_args(prefill_args()));
  CHECK(process.plan(backward, tuner::config_zero(problem::plan_key(backward), arch()),
                     test::serialized_facts()) == Path::kWgmma);
}

TEST_CASE("a problem that the path does not serve is an error that says why") {
  Process process(Path::kWgmma);
  const auto refusal = [&](const auto& problem) -> std::string {
    try {
      process.maker.make(*process.device, problem, problem::plan_key(problem),
                         runtime::Tuning::kAllowed);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kUnsupported);
      return error.what();
    }
    return "";
  };
  ForwardArgs args = test::forward_args({.seqlen_q = 1});
  CHECK(refusal(problem::make_problem(args)) ==
        "path wgmma has tiles of at least 64 rows, too many for this problem; use path auto or "
        "path mma");
  args = prefill_args();
  args.k.strides[2] += 1;
  CHECK(refusal(problem::make_problem(test::backward_args(args)))
            .find("wgmma needs addresses and strides of all tensors") != std::string::npos);
}

}  // namespace runtime_path_test
