#pragma once
#include <type_traits>

#include "attnjit/backward_config.h"
#include "attnjit/backward_preprocess_config.h"
#include "attnjit/bias_sum_config.h"
#include "attnjit/forward_combine_config.h"
#include "attnjit/forward_config.h"
#include "attnjit/fragment_sum_config.h"
#include "attnjit/mask_classes_config.h"
#include "attnjit/mask_pack_config.h"

namespace attnjit::codegen {

/// The one list of each config's fields: calls visit(name, member) for every member in order. Text,
/// JSON and keys are all made from it. A member that is missing here does not compile.
template <class Config, class Visit>
requires std::is_same_v<std::remove_const_t<Config>, kernel::ForwardConfig>
void for_each_field(Config& config, Visit&& visit) {
  auto& [dtype, head_dim, head_dim_v, gqa_ratio, aligned, scale_first, pack_heads, block_q,
         block_kv, num_stages, num_warps, min_blocks, softmax] = config;
  visit("dtype", dtype);
  visit("head_dim", head_dim);
  visit("head_dim_v", head_dim_v);
  visit("gqa_ratio", gqa_ratio);
  visit("aligned", aligned);
  visit("scale_first", scale_first);
  visit("pack_heads", pack_heads);
  visit("block_q", block_q);
  visit("block_kv", block_kv);
  visit("num_stages", num_stages);
  visit("num_warps", num_warps);
  visit("min_blocks", min_blocks);
  visit("softmax", softmax);
}

template <class Config, class Visit>
requires std::is_same_v<std::remove_const_t<Config>, kernel::MaskPackConfig>
void for_each_field(Config& config, Visit&& visit) {
  auto& [per_pair, vectorized, block_q, block_kv, num_warps] = config;
  visit("per_pair", per_pair);
  visit("vectorized", vectorized);
  visit("block_q", block_q);
  visit("block_kv", block_kv);
  visit("num_warps", num_warps);
}

template <class Config, class Visit>
requires std::is_same_v<std::remove_const_t<Config>, kernel::ForwardCombineConfig>
void for_each_field(Config& config, Visit&& visit) {
  auto& [dtype, head_dim_v, num_warps] = config;
  visit("dtype", dtype);
  visit("head_dim_v", head_dim_v);
  visit("num_warps", num_warps);
}

template <class Config, class Visit>
requires std::is_same_v<std::remove_const_t<Config>, kernel::BackwardConfig>
void for_each_field(Config& config, Visit&& visit) {
  auto& [dtype, head_dim, head_dim_v, gqa_ratio, aligned, scale_first, adds_dq, block_q, block_kv,
         num_stages, num_warps, query_warps, min_blocks, late, fresh] = config;
  visit("dtype", dtype);
  visit("head_dim", head_dim);
  visit("head_dim_v", head_dim_v);
  visit("gqa_ratio", gqa_ratio);
  visit("aligned", aligned);
  visit("scale_first", scale_first);
  visit("adds_dq", adds_dq);
  visit("block_q", block_q);
  visit("block_kv", block_kv);
  visit("num_stages", num_stages);
  visit("num_warps", num_warps);
  visit("query_warps", query_warps);
  visit("min_blocks", min_blocks);
  visit("late", late);
  visit("fresh", fresh);
}

template <class Config, class Visit>
requires std::is_same_v<std::remove_const_t<Config>, kernel::BackwardPreprocessConfig>
void for_each_field(Config& config, Visit&& visit) {
  auto& [dtype, head_dim_v, aligned] = config;
  visit("dtype", dtype);
  visit("head_dim_v", head_dim_v);
  visit("aligned", aligned);
}

template <class Config, class Visit>
requires std::is_same_v<std::remove_const_t<Config>, kernel::FragmentSumConfig>
void for_each_field(Config& config, Visit&& visit) {
  auto& [dtype, head_dim, aligned] = config;
  visit("dtype", dtype);
  visit("head_dim", head_dim);
  visit("aligned", aligned);
}

template <class Config, class Visit>
requires std::is_same_v<std::remove_const_t<Config>, kernel::BiasSumConfig>
void for_each_field(Config& config, Visit&& visit) {
  auto& [dtype, vectorized, over_queries] = config;
  visit("dtype", dtype);
  visit("vectorized", vectorized);
  visit("over_queries", over_queries);
}

template <class Config, class Visit>
requires std::is_same_v<std::remove_const_t<Config>, kernel::MaskClassesConfig>
void for_each_field(Config& config, Visit&& visit) {
  auto& [per_pair, vectorized] = config;
  visit("per_pair", per_pair);
  visit("vectorized", vectorized);
}

}  // namespace attnjit::codegen
