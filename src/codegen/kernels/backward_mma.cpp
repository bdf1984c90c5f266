#include "codegen/kernels/backward_mma.hpp"

#include <utility>

#include "codegen/kernel_dtype.hpp"
#include "codegen/literals.hpp"

namespace attnjit::kernel {

constexpr auto fields(const BackwardMmaConfig*) {
  using C = BackwardMmaConfig;
  return base::fields_of<C>(
      base::Field{"dtype", &C::dtype}, base::Field{"head_dim", &C::head_dim},
      base::Field{"head_dim_v", &C::head_dim_v}, base::Field{"gqa_ratio", &C::gqa_ratio},
      base::Field{"aligned", &C::aligned}, base::Field{"scale_first", &C::scale_first},
      base::Field{"adds_dq", &C::adds_dq}, base::Field{"block_q", &C::block_q},
      base::Field{"block_kv", &C::block_kv}, base::Field{"num_stages", &C::num_stages},
      base::Field{"num_warps", &C::num_warps}, base::Field{"query_warps", &C::query_warps},
      base::Field{"min_blocks", &C::min_blocks}, base::Field{"late", &C::late},
      base::Field{"fresh", &C::fresh});
}

}  // namespace attnjit::kernel

namespace attnjit::codegen {

using problem::BackwardFamily;

kernel::BackwardMmaConfig backward_mma_config(const BackwardFamily& f, const BackwardTile& tile,
                                              bool adds_dq) {
  return {.dtype = kernel_dtype(f.scores.dtype),
          .head_dim = f.scores.head_dim,
          .head_dim_v = f.scores.head_dim_v,
          .gqa_ratio = f.scores.gqa_ratio,
          .aligned = f.scores.aligned,
          .scale_first = scales_first(f.scores),
          .adds_dq = adds_dq,
          .block_q = tile.block_q,
          .block_kv = tile.block_kv,
          .num_stages = tile.num_stages,
          .num_warps = tile.num_warps,
          .query_warps = tile.query_warps,
          .min_blocks = tile.min_blocks,
          .late = tile.late,
          .fresh = tile.fresh};
}

Rule why_tile_unfit(const char* what, const kernel::BackwardMmaConfig& config, int shared_bytes,
                    const Arch& arch) {
  const Rule rule = why_invalid(config, shared_bytes, arch);
  return rule ? Rule(fmt::format("{}: {}", what, *rule)) : std::nullopt;
}

Source render_backward_mma(ScoreKernel kernel, const kernel::BackwardMmaConfig& config,
                           const BackwardFamily& family, const BackwardTile& tile,
                           const TemplateSet& templates) {
  kernel.params = {"BackwardParams", "params"};
  kernel.config_type = "BackwardMmaConfig";
  kernel.config = initialiser(config);
  std::string title = fmt::format("{} {} | {}{}", kernel.entry, describe(family),
                                  describe_tile(tile), config.adds_dq ? " dq" : "");
  return render_score_kernel(kernel, std::move(title), family.scores, Pass::kBackward, templates);
}

std::string bias_grad_store(const BackwardFamily& f) {
  return fmt::format("BiasGradStore<{}, {}>", literal(kernel_dtype(f.dbias_dtype)),
                     literal(f.dbias_vectorized));
}

}  // namespace attnjit::codegen
