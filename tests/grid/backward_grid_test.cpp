// As forward_grid_test.cpp, for tests/assets/backward_grid.json.
#include <algorithm>

#include "grid_jobs.hpp"

using namespace attnjit;

namespace {

void add_kernels(test::GridJobs& jobs, const problem::BackwardFamily& family,
                 const codegen::BackwardTunables& tunables) {
  const codegen::Arch& arch = codegen::find_arch("sm_90a");
  const auto plan = launch::make_backward_plan_spec(family, tunables, arch, {});
  for (const auto& step : plan.steps) {
    if (step.wgmma) jobs.add(arch, step);
  }
}

// Of the operands every `step`-th, by turns, and of the families with them every `share`-th.
void expect_unserialised(int step, int share) {
  const codegen::Arch& arch = codegen::find_arch("sm_90a");
  test::GridJobs jobs;
  int count = 0;  // of families
  using problem::Extent;
  struct Operands {
    Extent mask, bias;
    Extent dbias = Extent::kAbsent;
    bool reduced = false;  // over batch or heads
  };
  constexpr auto kAbsent = Extent::kAbsent, kPerKey = Extent::kPerKey, kPerPair = Extent::kPerPair;
  const Operands operands[] = {{kAbsent, kAbsent},
                               {kPerPair, kAbsent},
                               {kAbsent, kPerPair},
                               {kPerKey, kPerKey},
                               {kPerPair, kPerPair},
                               {kAbsent, kPerPair, kPerPair, false},
                               {kAbsent, kPerPair, kPerPair, true},
                               {kPerKey, kPerKey, kPerKey, true},
                               {kPerPair, kPerPair, kPerPair, true}};
  for (const int head_dim : {64, 96, 128, 192, 256}) {
    for (const int band : {0, 1, 2, 3}) {
      // Types and lengths by turns: every pair of choices is there.
      const int turn = band + head_dim / 32;
      problem::BackwardFamily family;
      family.scores = {.dtype = turn % 2 == 0 ? DType::kBFloat16 : DType::kFloat16,
                       .head_dim = head_dim,
                       .head_dim_v = head_dim,
                       .gqa_ratio = 1 + band,
                       .aligned = true,
                       .bounded_left = band >= 2,
                       .bounded_right = band % 2 == 1,
                       .seqlens = turn / 2 % 2 == 1};
      for (std::size_t i = turn % step; i < std::size(operands); i += step) {
        const Operands& with = operands[i];
        family.scores.mask = with.mask;
        family.scores.bias = with.bias;
        family.scores.bias_dtype = family.dbias_dtype = family.scores.dtype;
        family.dbias = with.dbias;
        family.dbias_reduces_planes = with.reduced;
        family.dbias_reduces_few = with.reduced && with.dbias == kPerPair && turn % 4 >= 2;
        // Of groups of batch elements by turns as well.
        family.dbias_groups_batch = family.scores.bias_groups_batch = with.reduced && turn % 2 == 1;
        family.scores.mask_vectorized = family.scores.bias_vectorized = true;
        family.dbias_vectorized = true;
        if (codegen::why_no_wgmma(family, arch)) continue;  // tiles of both beside wide heads
        if (++count % share != 0) continue;
        const problem::BackwardPlanKey key{.family = family, .bucket_q = 1024, .bucket_kv = 1024};
        codegen::BackwardTunables tunables = tuner::config_zero(key, arch);
        CHECK(tunables.dkv.path == codegen::Path::kWgmma);
        CHECK(codegen::why_unfit(tunables, family, arch).value_or("") == "");
        add_kernels(jobs, family, tunables);
        // A third with thread blocks that take whole planes as well.
        tunables.dbias_method = codegen::default_dbias_method(family);
        tunables.dq_method = codegen::DqMethod::kOwnKvHead;
        tunables.split = false;
        if (count % 3 == 0 && !codegen::why_unfit(tunables, family, arch)) {
          add_kernels(jobs, family, tunables);
        }
        // Another third of packed sequences.
        problem::BackwardPlanKey packed = key;
        packed.family.scores.packed = true;
        packed.family.dbias_reduces_few = false;
        if (count % 3 == 1 && !codegen::why_no_wgmma(packed.family, arch)) {
          add_kernels(jobs, packed.family, tuner::config_zero(packed, arch));
        }
        // The last third with a bias that is read element by element, or with any scale.
        problem::BackwardPlanKey elements = key;
        elements.family.scores.positive_scale = with.bias == kPerPair;
        elements.family.scores.bias_vectorized = elements.family.dbias_vectorized = false;
        if (count % 3 == 2 && !codegen::why_no_wgmma(elements.family, arch)) {
          add_kernels(jobs, elements.family, tuner::config_zero(elements, arch));
        }
      }
    }
  }
  for (const test::GridJob& job : jobs.compile()) {
    // By the threads that load, which have 24 registers where thread blocks take whole planes, a
    // choice of the tuner's.
    const bool planes = job.step.source.stub.find(".owns_kv_head = true") != std::string::npos;
    const int most_spilled = std::max(planes ? 40 : 24, test::spill_allowance(job));
    const std::string wrong = complaint(job);
    CHECK_MESSAGE(wrong.empty(), job.step.source.title, ":", wrong);
    CHECK_MESSAGE(job.facts.spill_store_bytes <= most_spilled, job.step.source.title, " spills ",
                  job.facts.spill_store_bytes, " bytes");
    // More would be an object whose address escapes: a loop that has it reads memory in each turn.
    CHECK_MESSAGE(job.facts.stack_bytes <= most_spilled, job.step.source.title, " has a stack of ",
                  job.facts.stack_bytes, " bytes");
  }
}

}  // namespace

TEST_CASE("configuration 0 of backwards compiles without a spill: a sample of rows") {
  CHECK(test::grid_rows("backward_grid.json").size() >= 30);  // pairs of (bias, mask) need as many
  test::expect_sound(test::sample(test::backward_grid()));
}
TEST_CASE("slow: configuration 0 of backwards compiles without a spill for every pair of choices") {
  test::expect_sound(test::backward_grid());
}

// A ninth of the operands for each width and band, by turns, and every second family of these.
TEST_CASE("the Hopper kernels of dk, dv and dq compile unserialised: a sample of what they serve") {
  expect_unserialised(9, 2);
}
TEST_CASE(
    "slow: the Hopper kernels of dk, dv and dq compile unserialised for all that they serve") {
  expect_unserialised(1, 1);
}
