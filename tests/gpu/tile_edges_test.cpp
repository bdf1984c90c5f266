// Lengths around the edges of each tile of the Hopper forward that configuration 0 takes, with all
// of the head dims that it is legal for.
#include "tile_edges.hpp"

#include "gpu.hpp"
#include "runtime/load/plan_loader.hpp"

namespace attnjit {
namespace {

using instance::ProblemSpec;

// Runs `spec` with a tile.
void expect_right(gpu_test::Gpu& gpu, runtime::Engine& engine, const ProblemSpec& spec,
                  const codegen::ForwardTunables& tile) {
  CAPTURE(instance::describe(spec));
  instance::HostProblem problem(spec, 1);
  problem.poison_outputs();
  check::DeviceMirror mirror(*gpu.driver, problem);
  const ForwardArgs args = mirror.args();
  const auto call = problem::make_problem(args);
  const codegen::Arch arch = runtime::arch_of(cuda::current_device(*gpu.driver));
  const auto plan = runtime::load_plan<launch::ForwardPass>(
      engine, *gpu.driver, engine.plan(call, arch, tile), arch, call);
  const auto layout = launch::workspace_layout(plan->spec(), call);
  const cuda::DeviceBuffer workspace(*gpu.driver, layout.bytes);
  const cuda::Stream stream(*gpu.driver);
  plan->launch(*gpu.driver, call, args, layout, workspace.data(), stream.get());
  stream.synchronize();
  mirror.download(problem);
  const auto verdict = check::judge_forward(problem, reference::Rows::every(), 4);
  INFO(verdict.text);
  CHECK(verdict.pass);
}

TEST_CASE("wgmma: lengths around the edges of every tile that configuration 0 takes") {
  ATTNJIT_NEED_GPU(gpu);
  const codegen::Arch arch = runtime::arch_of(cuda::current_device(*gpu.driver));
  if (!arch.wgmma) ATTNJIT_SKIP("this machine's GPU has no wgmma");
  runtime::Engine engine(base::process_environment());
  for (codegen::ForwardTunables tile : test::shipped_wgmma_tiles()) {
    CAPTURE(codegen::describe_tile(tile));
    int legal = 0;
    for (const std::int64_t head_dim : {64, 128, 192, 256}) {
      for (const bool causal : {false, true}) {
        tile.pack_gqa = tile.block_q == 64 && causal;
        ProblemSpec spec{.batch = 2, .heads_q = 4, .heads_kv = 2, .head_dim = head_dim};
        if (causal) spec = gpu_test::causal(spec, Diagonal::kBottomRight);
        const instance::HostProblem shape(spec, 1);
        const auto key = problem::plan_key(problem::make_problem(shape.args()));
        if (codegen::why_unfit(tile, key.family, arch)) continue;
        ++legal;
        for (const ProblemSpec& around : test::around_tile(spec, tile)) {
          expect_right(gpu, engine, around, tile);
        }
      }
    }
    CHECK(legal > 0);
  }
}

}  // namespace
}  // namespace attnjit
