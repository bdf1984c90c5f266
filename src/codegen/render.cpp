#include "codegen/render.hpp"

#include <fmt/format.h>

#include <utility>

#include "codegen/config_fields.hpp"
#include "codegen/literals.hpp"

namespace attnjit::codegen {
namespace {

// A kernel whose only parameter is a struct that is called as its config: type "MaskToBits".
struct SmallKernel {
  const char* entry;
  const char* header;
  const char* function;
  std::string type;
};

// A 1 at the end of its launch bounds lets a kernel have the registers that it needs; ptxas may
// choose fewer otherwise.
template <class Config>
Source render(const SmallKernel& kernel, std::string title, const Config& config,
              const char* launch_bounds, const TemplateSet& templates, bool grouped = false) {
  const std::string config_type = kernel.type + "Config", params_type = kernel.type + "Params";
  return make_source({.entry = kernel.entry,
                      .title = std::move(title),
                      .headers = {kernel.header},
                      .config_type = config_type.c_str(),
                      .config = initialiser(config),
                      .definitions = "",
                      .launch_bounds = launch_bounds,
                      .parameters = {{params_type.c_str(), "params", grouped}},
                      .function = kernel.function,
                      .arguments = {"params"}},
                     templates);
}
constexpr const char* kThreads = "kConfig.num_threads()";
constexpr const char* kThreadsAndOne = "kConfig.num_threads(), 1";

}  // namespace

Source render_mask_to_bits(const kernel::MaskToBitsConfig& config, const TemplateSet& templates) {
  return render({"mask_to_bits", "prepass/mask_to_bits.cuh", "mask_to_bits", "MaskToBits"},
                fmt::format("mask_to_bits {}{}{}", config.per_pair ? "qk" : "1k",
                            config.vectorized ? "" : " scalar",
                            !config.by_keys  ? ""
                            : config.by_rows ? " by rows and keys"
                                             : " by keys"),
                config, kThreads, templates);
}

Source render_operand_ranges(const kernel::OperandRangesConfig& config,
                             const TemplateSet& templates) {
  return render({"operand_ranges", "prepass/operand_ranges.cuh", "operand_ranges", "OperandRanges"},
                fmt::format("operand_ranges | w{}", config.num_warps), config, kThreads, templates);
}

Source render_block_lists(const kernel::BlockListsConfig& config, const TemplateSet& templates) {
  return render({"block_lists", "prepass/block_lists.cuh", "block_lists", "BlockLists"},
                fmt::format("block_lists | w{}", config.num_warps), config, kThreads, templates);
}

Source render_gather_keys(const kernel::GatherKeysConfig& config, const TemplateSet& templates) {
  return render({"gather_keys", "prepass/gather_keys.cuh", "gather_keys", "GatherKeys"},
                fmt::format("gather_keys d{} dv{}{} int{}", config.head_dim, config.head_dim_v,
                            config.aligned ? "" : " unaligned", 8 * config.index_bytes),
                config, kThreads, templates);
}

Source render_scatter_keys(const kernel::ScatterKeysConfig& config, const TemplateSet& templates) {
  return render({"scatter_keys", "backward/scatter_keys.cuh", "scatter_keys", "ScatterKeys"},
                fmt::format("scatter_keys d{} dv{}{}", config.head_dim, config.head_dim_v,
                            config.aligned ? "" : " unaligned"),
                config, kThreads, templates);
}

Source render_operand_sums(const kernel::OperandSumConfig& config, const TemplateSet& templates) {
  return render({"operand_sums", "backward/operand_sum.cuh", "operand_sums", "OperandSum"},
                fmt::format("operand_sums | w{}", config.num_warps), config, kThreads, templates);
}

Source render_clear_count(const kernel::ClearCountConfig& config, const TemplateSet& templates) {
  return render({"clear_count", "prepass/clear_count.cuh", "clear_count", "ClearCount"},
                "clear_count", config, kThreads, templates);
}

Source render_packed_order(const kernel::PackedOrderConfig& config, const TemplateSet& templates) {
  return render({"packed_order", "prepass/packed_order.cuh", "packed_order", "PackedOrder"},
                fmt::format("packed_order q{} heads{}{}", config.block_q, config.pack_gqa_heads,
                            config.paged_keys ? " paged" : ""),
                config, kThreads, templates);
}

Source render_forward_combine(const kernel::ForwardCombineConfig& config,
                              const TemplateSet& templates) {
  return render({"attn_fwd_combine", "forward/combine.cuh", "forward_combine", "ForwardCombine"},
                fmt::format("attn_fwd_combine {} dv{}{} | w{}", name(config.dtype),
                            config.head_dim_v, config.row_max ? " row_max" : "", config.num_warps),
                config, kThreads, templates);
}

Source render_max_logits(const kernel::MaxLogitsConfig& config, const TemplateSet& templates) {
  return render({"max_logits", "forward/max_logits.cuh", "max_logits", "MaxLogits"},
                fmt::format("max_logits | w{}", config.num_warps), config, kThreads, templates);
}

Source render_merge_lse(const kernel::MergeLseConfig& config, const TemplateSet& templates) {
  return render({"merge_lse", "forward/merge_lse.cuh", "merge_lse", "MergeLse"},
                fmt::format("merge_lse {} to {} dv{}{}{}", name(config.part_dtype),
                            name(config.dtype), config.head_dim_v,
                            config.aligned ? "" : " unaligned", config.carry ? " carry" : ""),
                config, kThreads, templates);
}

Source render_backward_preprocess(const kernel::BackwardPreprocessConfig& config,
                                  const TemplateSet& templates) {
  return render(
      {"backward_preprocess", "backward/preprocess.cuh", "backward_preprocess",
       "BackwardPreprocess"},
      fmt::format("backward_preprocess {} dv{}{}{}{}{}{}{}", name(config.dtype), config.head_dim_v,
                  config.aligned ? "" : " unaligned", config.bf16x3 ? " bf16x3" : "",
                  config.sink ? " sink" : "", config.row_mask ? " row_mask" : "",
                  config.row_bias ? " row_bias" : "", config.packed ? " packed" : ""),
      config, kThreadsAndOne, templates);
}

Source render_fragment_sum(const kernel::FragmentSumConfig& config, const TemplateSet& templates) {
  return render({"fragment_sum", "backward/fragment_sum.cuh", "fragment_sum", "FragmentSum"},
                fmt::format("fragment_sum {} d{}{}{}", name(config.dtype), config.head_dim,
                            config.aligned ? "" : " unaligned", config.packed ? " packed" : ""),
                config, kThreadsAndOne, templates);
}

Source render_bias_sum(const kernel::BiasSumConfig& config, const TemplateSet& templates) {
  return render(
      {"bias_sum", "backward/bias_sum.cuh", "bias_sum", "BiasSum"},
      fmt::format("bias_sum {}{}{}{}{}{}", name(config.dtype), config.vectorized ? "" : " scalar",
                  config.sums_planes() ? fmt::format(" of {} planes", name(config.partials)) : "",
                  config.over_queries ? " over queries" : "", config.groups ? " grouped" : "",
                  config.packed ? " packed" : ""),
      config, kThreadsAndOne, templates, config.groups);
}

}  // namespace attnjit::codegen
