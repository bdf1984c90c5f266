#pragma once
#include "codegen/kernel_configs.hpp"
#include "codegen/source.hpp"

namespace attnjit::codegen {

/// The sources of the kernels beside the main ones. Each has one parameter, the struct that is
/// called as its config.
Source render_mask_to_bits(const kernel::MaskToBitsConfig& config, const TemplateSet& templates);
Source render_operand_ranges(const kernel::OperandRangesConfig& config,
                             const TemplateSet& templates);
Source render_block_lists(const kernel::BlockListsConfig& config, const TemplateSet& templates);
Source render_gather_keys(const kernel::GatherKeysConfig& config, const TemplateSet& templates);
Source render_scatter_keys(const kernel::ScatterKeysConfig& config, const TemplateSet& templates);
Source render_operand_sums(const kernel::OperandSumConfig& config, const TemplateSet& templates);
Source render_clear_count(const kernel::ClearCountConfig& config, const TemplateSet& templates);
Source render_packed_order(const kernel::PackedOrderConfig& config, const TemplateSet& templates);
Source render_forward_combine(const kernel::ForwardCombineConfig& config,
                              const TemplateSet& templates);
Source render_max_logits(const kernel::MaxLogitsConfig& config, const TemplateSet& templates);
Source render_merge_lse(const kernel::MergeLseConfig& config, const TemplateSet& templates);

Source render_backward_preprocess(const kernel::BackwardPreprocessConfig& config,
                                  const TemplateSet& templates);
Source render_fragment_sum(const kernel::FragmentSumConfig& config, const TemplateSet& templates);
Source render_bias_sum(const kernel::BiasSumConfig& config, const TemplateSet& templates);

}  // namespace attnjit::codegen
