#include "cli/work/planning.hpp"

#include <doctest/doctest.h>

#include <set>

#include "attnjit/error.hpp"
#include "launch/mask_plan.hpp"
#include "launch/merge_plan.hpp"

namespace attnjit::cli {
namespace {

TEST_CASE("a plan has the splits of the device at hand, else of a common one") {
  runtime::Engine engine(base::parse_environment([](const char*) { return std::nullopt; }));
  const codegen::Arch& arch = codegen::find_arch("sm_90a");
  Case job;
  job.spec.heads_q = job.spec.heads_kv = 2;
  job.spec.seqlen_q = 1;
  job.spec.seqlen_kv = 65536;
  job.spec.head_dim = 64;
  const auto blocks = [&](std::vector<tuner::DeviceClass> devices) {
    const Planned planned = Planner(engine, std::nullopt, std::move(devices)).plan(job, arch);
    CHECK(planned.arch == &arch);
    return planned.steps[planned.main_step].grid[0];
  };
  const tuner::DeviceClass whole{"whole", arch.sm_count, "sm_90a", 50u << 20};
  const tuner::DeviceClass slice{"slice", 16, "sm_90a", 6u << 20};
  const tuner::DeviceClass other{"other", 16, "sm_80", 40u << 20};
  CHECK(blocks({}) == blocks({whole}));
  CHECK(blocks({other}) == blocks({}));
  CHECK(blocks({slice}) < blocks({}));
}

TEST_CASE("a plan has the kernels that merge its results where that is asked for") {
  runtime::Engine engine(base::parse_environment([](const char*) { return std::nullopt; }));
  const codegen::Arch& arch = codegen::find_arch("sm_80");
  Case job;
  job.spec.seqlen_q = 1000;
  const auto merges = [&] {
    std::set<cache::KernelKey> keys;
    for (const PlannedStep& step : Planner(engine, std::nullopt, {}).plan(job, arch).steps) {
      if (step.spec.source.entry != "merge_lse") continue;
      CHECK_FALSE(step.runs());
      keys.insert(step.key);
    }
    return keys;
  };
  CHECK(merges().empty());
  job.merges = true;
  const auto keys = merges();
  CHECK(keys.size() == 4);
  // The kernel of a call, as the runtime makes it.
  const problem::MergeKey of_ring{.part_dtype = DType::kBFloat16,
                                  .dtype = DType::kFloat32,
                                  .head_dim_v = static_cast<std::int32_t>(job.spec.head_dim),
                                  .aligned = true,
                                  .carry = true};
  const auto spec = launch::make_merge_plan_spec(of_ring, engine.templates());
  CHECK(keys.count(engine.key(spec.steps.front().source, arch)) == 1);
  job.spec.head_dim = 40;
  CHECK(merges() != keys);
}

TEST_CASE("a plan has the kernels that prepare its mask") {
  runtime::Engine engine(base::parse_environment([](const char*) { return std::nullopt; }));
  const codegen::Arch& arch = codegen::find_arch("sm_80");
  Case job;
  job.spec.seqlen_q = 1000;
  job.spec.mask = "b1qk";
  const auto packs = [&] {
    std::set<cache::KernelKey> keys;
    for (const PlannedStep& step : Planner(engine, std::nullopt, {}).plan(job, arch).steps) {
      if (step.spec.source.entry == "mask_to_bits" && !step.runs()) keys.insert(step.key);
    }
    return keys;
  };
  CHECK(packs().empty());
  job.spec.prepare_mask = true;
  const auto forward = packs();
  CHECK(forward.size() == 2);
  // The kernel of a call, as the runtime makes it.
  const auto spec =
      launch::make_mask_plan_spec({.per_pair = true, .vectorized = true}, engine.templates());
  CHECK(forward.count(engine.key(spec.steps.front().source, arch)) == 1);
  job.spec.backward = true;
  CHECK(packs().size() == 2);
  CHECK(packs() != forward);
}

Case backward_case() {
  Case job{"job", "", {}};
  job.spec.backward = true;
  job.spec.batch = job.spec.heads_q = job.spec.heads_kv = 2;
  job.spec.head_dim = 64;
  job.spec.bias = "11qk";
  job.spec.want_dbias = true;
  return job;
}

std::vector<std::string> entries(const Planned& planned) {
  std::vector<std::string> names;
  for (const PlannedStep& step : planned.steps) names.push_back(step.spec.source.entry);
  return names;
}

TEST_CASE("a forward's plan on Hopper says why it does not take wgmma, and may be kept from it") {
  runtime::Engine engine(base::parse_environment([](const char*) { return std::nullopt; }));
  const codegen::Arch& arch = codegen::find_arch("sm_90a");
  const auto plan = [&](const Case& job, std::optional<codegen::Path> path = {}) {
    return Planner(engine, std::nullopt, {}, path).plan(job, arch);
  };
  const auto tile = [](const Planned& planned) { return planned.steps[planned.main_step].tile; };
  Case job;
  job.spec.seqlen_q = 1000;
  CHECK(tile(plan(job)).starts_with("wgmma "));
  CHECK(plan(job).why.find("path mma") == std::string::npos);
  const Planned kept = plan(job, codegen::Path::kMma);
  CHECK(tile(kept).starts_with("q"));
  CHECK(kept.config_from == "--path");
  job.spec.head_dim = 60;
  CHECK(plan(job).why.find("path mma: wgmma needs addresses") != std::string::npos);
  CHECK_THROWS_WITH_AS(plan(job, codegen::Path::kWgmma),
                       doctest::Contains("use path auto or path mma"), Error);
  job.spec.head_dim = 64;
  job.spec.seqlen_q = 8;
  CHECK(plan(job).why.find("too many for this problem") != std::string::npos);
}

TEST_CASE("a backward's plan on Hopper says why it does not take wgmma") {
  runtime::Engine engine(base::parse_environment([](const char*) { return std::nullopt; }));
  const codegen::Arch& arch = codegen::find_arch("sm_90a");
  Planner planner(engine, std::nullopt, {}, std::nullopt);
  Case job;
  job.spec.backward = true;
  CHECK(planner.plan(job, arch).why.find("path mma") == std::string::npos);
  job.spec.head_dim = 60;
  CHECK(planner.plan(job, arch).why.find("path mma: wgmma needs addresses and strides") !=
        std::string::npos);
}

TEST_CASE("--path wgmma gives a backward the kernel of Hopper where that serves it") {
  runtime::Engine engine(base::parse_environment([](const char*) { return std::nullopt; }));
  const codegen::Arch& arch = codegen::find_arch("sm_90a");
  Planner planner(engine, std::nullopt, {}, codegen::Path::kWgmma);
  Case job = backward_case();
  job.spec.mask.clear();
  job.spec.bias.clear();
  job.spec.want_dbias = false;
  const Planned planned = planner.plan(job, arch);
  CHECK(planned.steps[planned.main_step].tile.starts_with("wgmma q"));
  CHECK(planned.config_from == "--path");
  job.spec.head_dim = 60;
  CHECK_THROWS_WITH_AS(planner.plan(job, arch),
                       doctest::Contains("wgmma needs addresses and strides of all tensors"),
                       Error);
}

TEST_CASE("a backward's plan lists its kernels, and the one of dk and dv is the main one") {
  runtime::Engine engine(base::parse_environment([](const char*) { return std::nullopt; }));
  const codegen::Arch& arch = codegen::find_arch("sm_80");
  Planner planner(engine, std::nullopt, {});
  Case job = backward_case();
  const Planned planned = planner.plan(job, arch);
  CHECK(entries(planned) == std::vector<std::string>{"backward_preprocess", "attn_bwd_dkv",
                                                     "fragment_sum", "fragment_sum", "fragment_sum",
                                                     "bias_sum"});
  CHECK(pick_step(planned, "").spec.source.entry == "attn_bwd_dkv");
  CHECK(pick_step(planned, "bias_sum").tile == "w8");
  CHECK(planned.config_from == "configuration 0");
  CHECK(planned.workspace_bytes > 0);
  CHECK(planner.variants(job, arch).size() == 1);
  job.spec.deterministic = true;
  CHECK(entries(planner.plan(job, arch)) == std::vector<std::string>{"backward_preprocess",
                                                                     "attn_bwd_dkv", "attn_bwd_dq",
                                                                     "attn_bwd_dbias", "bias_sum"});
}

TEST_CASE("a config sets members of a backward's tunables") {
  runtime::Engine engine(base::parse_environment([](const char*) { return std::nullopt; }));
  const codegen::Arch& arch = codegen::find_arch("sm_80");
  const auto plan = [&](const char* config) {
    return Planner(engine, config, {}).plan(backward_case(), arch);
  };
  const Planned planned = plan(R"({"dbias_method": "kernel", "dbias": {
      "block_q": 32, "block_kv": 32, "num_stages": 1, "num_warps": 4, "query_warps": 2}})");
  CHECK(planned.config_from == "--config");
  CHECK(pick_step(planned, "attn_bwd_dbias").tile.find("q32 ") == 0);
  CHECK_THROWS_WITH_AS(plan(R"({"dbias_method": "rows"})"), doctest::Contains("does not support"),
                       Error);
  CHECK_THROWS_WITH_AS(plan(R"({"softmax": "max_free"})"),
                       doctest::Contains("unknown member \"softmax\""), Error);
}

}  // namespace
}  // namespace attnjit::cli
