#include "cli/planning.hpp"

#include <doctest/doctest.h>

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
    return planned.steps[planned.forward_step].grid[0];
  };
  const tuner::DeviceClass whole{"whole", arch.sm_count, "sm_90a", 50u << 20};
  const tuner::DeviceClass slice{"slice", 16, "sm_90a", 6u << 20};
  const tuner::DeviceClass other{"other", 16, "sm_80", 40u << 20};
  CHECK(blocks({}) == blocks({whole}));
  CHECK(blocks({other}) == blocks({}));
  CHECK(blocks({slice}) < blocks({}));
}

}  // namespace
}  // namespace attnjit::cli
