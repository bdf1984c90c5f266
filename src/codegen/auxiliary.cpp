#include "codegen/auxiliary.hpp"

#include <algorithm>

namespace attnjit::codegen {

std::optional<kernel::MaskPackConfig> mask_pack_config(const problem::Family& family,
                                                       const kernel::ForwardConfig& config) {
  using problem::Extent;
  if (!problem::varies_over_keys(family.mask)) return std::nullopt;
  // Its tile holds the queries and keys of the forward kernel's.
  return kernel::MaskPackConfig{.per_pair = family.mask == Extent::kPerPair,
                                .vectorized = family.mask_vectorized,
                                .block_q = std::max(1, config.block_q / config.packed_heads()),
                                .block_kv = config.block_kv,
                                .num_warps = 4};
}

kernel::ForwardCombineConfig forward_combine_config(const kernel::ForwardConfig& config) {
  return {.dtype = config.dtype, .head_dim_v = config.head_dim_v, .num_warps = 8};
}

}  // namespace attnjit::codegen
