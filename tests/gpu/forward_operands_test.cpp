// Whether the CPU executor hands the matrix instruction what a GPU does, word for word: layouts of
// fragments, order of keys, swizzles, padding and skipped tiles.
#include <algorithm>
#include <cstdlib>

#include "codegen/kernels/rows.hpp"
#include "executor/executor.hpp"
#include "gpu.hpp"
#include "recorder.hpp"
#include "runtime/load/plan_loader.hpp"
#include "tuner/config_zero.hpp"

namespace attnjit::forward_operands_test {
namespace {

using gpu_test::Recorder;
using instance::ProblemSpec;
using Words = std::vector<std::uint32_t>;

/// A problem and the kernels that both sides run.
struct Job {
  explicit Job(const ProblemSpec& spec, const codegen::Arch& target)
      : host(spec, 1),
        problem(problem::make_problem(host.args())),
        key(problem::plan_key(problem)),
        arch(target),
        config(tuner::config_zero(key, codegen::without_wgmma(arch))),
        recorder(codegen::forward_mma_config(key.family, config),
                 launch::forward_grid(plan({}), problem), problem.seqlen_kv) {}

  launch::ForwardPlanSpec plan(const codegen::TemplateSet& templates) const {
    return launch::make_forward_plan_spec(key.family, config, arch, templates);
  }

  instance::HostProblem host;
  problem::Problem problem;
  problem::PlanKey key;
  codegen::Arch arch;
  codegen::ForwardTunables config;
  Recorder recorder;
};

// Kernels with an address in their text are not for keeping.
base::Environment without_cache() {
  base::Environment environment = base::process_environment();
  environment.cache_directory.reset();
  return environment;
}

Words record_on_gpu(const Job& job, const cuda::Driver& driver) {
  Words words(job.recorder.words());
  const cuda::DeviceBuffer buffer(driver, words.size() * sizeof(words[0]));
  cuda::copy_to_device(driver, buffer.data(), words.data(), buffer.bytes());
  runtime::Engine engine(without_cache());
  const auto plan = runtime::load_plan<launch::ForwardPass>(
      engine, driver, job.plan(job.recorder.templates(buffer.data())), job.arch, job.problem);
  const auto layout = launch::workspace_layout(plan->spec(), job.problem);
  const cuda::DeviceBuffer workspace(driver, layout.bytes);
  const check::DeviceMirror mirror(driver, job.host);
  const cuda::Stream stream(driver);
  plan->launch(driver, job.problem, mirror.args(), layout, workspace.data(), stream.get());
  stream.synchronize();
  cuda::copy_to_host(driver, words.data(), buffer.data(), buffer.bytes());
  return words;
}

Words record_on_cpu(Job& job) {
  Words words(job.recorder.words());
  const codegen::TemplateSet templates = job.recorder.templates(words.data());
  base::Log log(base::LogLevel::kError, {});
  executor::Executor executor({.templates = templates}, log);
  job.host.poison_outputs();
  executor.forward(job.plan(templates), job.problem, job.host.args());
  return words;
}

// The largest distance of two probabilities, in steps of their 16-bit format; none is negative.
int distance(std::uint32_t a, std::uint32_t b) {
  const auto half = [](std::uint32_t word, int shift) {
    return static_cast<int>(word >> shift & 0xffff);
  };
  return std::max(std::abs(half(a, 0) - half(b, 0)), std::abs(half(a, 16) - half(b, 16)));
}

void expect_same_operands(const ProblemSpec& spec, const cuda::Driver& driver) {
  Job job(spec, runtime::arch_of(cuda::current_device(driver)));
  const Words gpu = record_on_gpu(job, driver);
  const Words cpu = record_on_cpu(job);
  std::size_t calls = 0, different = 0, far = 0;
  for (std::size_t thread = 0; thread < job.recorder.threads(); ++thread) {
    for (int product = 0; product < Recorder::kProducts; ++product) {
      const auto got = job.recorder.slot(gpu, thread, product);
      const auto want = job.recorder.slot(cpu, thread, product);
      REQUIRE(got[0] == want[0]);
      calls += got[0];
      for (std::size_t i = 1; i <= got[0] * std::size_t{Recorder::kWords}; ++i) {
        // The scores that P comes from are sums in another order.
        const bool is_p = product == 1 && (i - 1) % Recorder::kWords < 4;
        different += !is_p && got[i] != want[i];
        far += is_p && distance(got[i], want[i]) > 1;
      }
    }
  }
  INFO(instance::describe(spec));
  CHECK(calls > 0);
  CHECK(different == 0);
  CHECK(far == 0);
}

TEST_CASE("operands: Q, K and V bit for bit and P within a step, on the CPU as on the GPU") {
  ATTNJIT_NEED_GPU(gpu);
  const auto expect_same = [&](const ProblemSpec& spec) {
    expect_same_operands(spec, *gpu.driver);
  };
  expect_same({.batch = 2, .heads_q = 2, .heads_kv = 1, .seqlen_q = 150, .seqlen_kv = 200});
  expect_same({.dtype = DType::kFloat16,
               .seqlen_q = 130,
               .seqlen_kv = 190,
               .head_dim = 40,
               .head_dim_v = 72,
               .mask = "b11k",
               .bias = "11qk",
               .mask_kind = tensor::MaskKind::kScattered});
  ProblemSpec causal{.seqlen_q = 200, .seqlen_kv = 300, .head_dim = 128};
  causal.causal = true;
  causal.diagonal = Diagonal::kBottomRight;
  expect_same(causal);
  // pack_gqa and split keys.
  expect_same({.heads_q = 8, .heads_kv = 2, .seqlen_q = 2, .seqlen_kv = 900, .head_dim = 128});
  // Element by element.
  expect_same({.seqlen_q = 70, .seqlen_kv = 100, .head_dim = 33});
}

}  // namespace
}  // namespace attnjit::forward_operands_test
