// Random problems, their kernels run on the CPU with every access checked and judged against fp64.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <mutex>
#include <thread>

#include "attnjit/error.hpp"
#include "base/parallel.hpp"
#include "bench.hpp"
#include "random_problem.hpp"
#include "tuner/config_zero.hpp"
#include "wgmma_backward.hpp"

namespace attnjit::executor_test {
namespace {

// run(bench, index) returns what is wrong with problem `index`, and `name` names it.
template <class Name, class Run>
void sweep(std::uint64_t first, std::uint64_t count, Name name, Run run) {
  Bench bench;
  std::mutex mutex;
  std::string failures;
  std::size_t failed = 0;
  base::parallel_for(count, std::thread::hardware_concurrency(), [&](std::size_t i) {
    std::string text;
    try {
      text = run(bench, first + i);
    } catch (const Error& error) {
      text = error.what();
    }
    if (text.empty()) return;
    const std::lock_guard lock(mutex);
    if (++failed <= 20) {
      failures +=
          "problem " + std::to_string(first + i) + ": " + name(first + i) + "\n" + text + "\n";
    }
  });
  INFO(failures);
  CHECK(failed == 0);
}

// Every second problem runs for an architecture whose combine step overlaps the forward. Half of
// those that take the path of Hopper have so few SMs that a thread block gets several blocks of
// rows.
codegen::Arch arch_of(std::uint64_t index) {
  codegen::Arch arch = codegen::find_arch(index % 2 == 0 ? "sm_80" : "sm_90a");
  if (index % 8 == 5) arch.sm_count = 2;
  return arch;
}

// Every fourth problem takes the path of Hopper where that serves it, with tiles by turns: one, two
// and three warpgroups, rings of two and three, with and without pack_gqa.
std::string config_of(const instance::ProblemSpec& spec, std::uint64_t index) {
  constexpr const char* kTiles[] = {R"("block_q": 128, "block_kv": 64, "num_stages": 2)",
                                    R"("block_q": 64, "block_kv": 32, "num_stages": 3)",
                                    R"("block_q": 192, "block_kv": 64, "num_stages": 2)",
                                    R"("block_q": 128, "block_kv": 128, "num_stages": 2)"};
  instance::HostProblem host(spec, 1);
  const problem::Family family = problem::family(problem::make_problem(host.args()));
  if (index % 4 != 1 || codegen::why_no_wgmma(family, arch_of(index))) return "{}";
  const bool packs = index / 16 % 2 == 0 && family.gqa_ratio > 1 && 64 % family.gqa_ratio == 0 &&
                     !family.mask_per_query_head;
  return fmt::format(R"({{"path": "wgmma", {}, "pack_gqa": {}}})", kTiles[index / 4 % 4], packs);
}

void sweep_forward(std::uint64_t first, std::uint64_t count) {
  sweep(
      first, count, [](auto i) { return instance::describe(test::small_problem(i)); },
      [](Bench& bench, std::uint64_t i) {
        const instance::ProblemSpec spec = test::small_problem(i);
        return bench.forward(spec, arch_of(i), config_of(spec, i));
      });
}

// Every fourth problem is deterministic, and every eighth runs where shared memory is scarce.
instance::ProblemSpec backward_problem(std::uint64_t index) {
  instance::ProblemSpec spec = test::small_backward_problem(index);
  spec.deterministic = index % 4 == 3;
  return spec;
}

// The path of Hopper where that serves a problem, with queries split over blocks and without.
std::string config_of_backward(const instance::ProblemSpec& spec, const codegen::Arch& arch,
                               std::uint64_t index) {
  instance::HostProblem host(spec, 1);
  const problem::BackwardPlanKey key =
      problem::plan_key(problem::make_problem(host.backward_args()));
  const auto zero = tuner::config_zero(key, arch);
  if (zero.dkv.path != codegen::Path::kWgmma) return "{}";
  if (zero.dq_method == codegen::DqMethod::kKernel) return wide_backward(2, index % 4 == 1);
  const bool parts = zero.dbias_method == codegen::DbiasMethod::kPerPlane;
  const bool may_add = parts && key.family.dbias_reduces_planes && !spec.deterministic;
  const bool adds = may_add && index % 8 < 4;
  const bool stores = codegen::stores_dbias(zero.dbias_method) && !adds;
  const std::string config = index / 2 % 2 == 0 && !spec.packed && !stores
                                 ? plane_backward(zero.dkv.block_q)
                                 : wgmma_backward(zero.dkv.block_q, 2, index % 4 == 1);
  return parts ? with_dbias(config, adds ? "add" : "per_plane") : config;
}

void sweep_backward(std::uint64_t first, std::uint64_t count) {
  sweep(
      first, count, [](auto i) { return instance::describe(backward_problem(i)); },
      [](Bench& bench, std::uint64_t i) {
        const codegen::Arch arch = i % 8 == 5 ? codegen::find_arch("sm_86") : arch_of(i);
        const instance::ProblemSpec spec = backward_problem(i);
        return bench.backward(spec, arch, config_of_backward(spec, arch, i));
      });
}

TEST_CASE("16 problems") { sweep_forward(0, 16); }
TEST_CASE("12 backward problems") { sweep_backward(0, 12); }
TEST_CASE("slow: 300 problems of each pass") {
  sweep_forward(1000, 300);
  sweep_backward(1000, 300);
}

}  // namespace
}  // namespace attnjit::executor_test
