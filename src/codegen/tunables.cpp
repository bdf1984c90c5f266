#include "codegen/tunables.hpp"

#include <fmt/format.h>

#include "codegen/kernels/rows.hpp"

namespace attnjit::codegen {

using problem::Extent;

Rule why_unfit(const ForwardTunables& tunables, const problem::Family& family, const Arch& arch) {
  if (auto rule = why_out_of_range(tunables)) return rule;
  if (tunables.pack_gqa && family.mask_per_query_head) {
    return "pack_gqa is true; the heads of a kv head must share the mask";
  }
  if (tunables.pack_gqa && family.mask == Extent::kPerPair &&
      tunables.block_q % family.gqa_ratio != 0) {
    return fmt::format("pack_gqa is true; with this mask block_q must be a multiple of {}",
                       family.gqa_ratio);
  }
  return std::visit([&](const auto& config) { return why_unfit(config, tunables, family, arch); },
                    forward_kernel(family, tunables));
}

Rule why_unfit(const ForwardTunables& tunables, const problem::PlanKey& key, const Arch& arch) {
  if (auto rule = why_unfit(tunables, key.family, arch)) return rule;
  if (tunables.path == Path::kSingleTile) {
    return why_longer_than(tunables.block_q, tunables.block_kv, key, tunables.path);
  }
  if (tunables.path == Path::kSharedBias) {
    return why_longer_than(key.bucket_q, tunables.block_kv, key, tunables.path);
  }
  return std::nullopt;
}

std::string describe_tile(const ForwardTunables& t) {
  if (t.path == Path::kSingleTile) {
    return fmt::format("single_tile q{} kv{} b{}", t.block_q, t.block_kv, t.min_blocks);
  }
  if (t.path == Path::kSharedBias) {
    return fmt::format("shared_bias q{} kv{}", t.block_q, t.block_kv);
  }
  if (t.path == Path::kWgmma) {
    return fmt::format("wgmma q{}{} kv{} s{}", t.block_q, t.pack_gqa ? " pack_gqa" : "", t.block_kv,
                       t.num_stages);
  }
  return fmt::format("q{}{} kv{} s{} w{} b{}{}", t.block_q, t.pack_gqa ? " pack_gqa" : "",
                     t.block_kv, t.num_stages, t.num_warps, t.min_blocks,
                     t.softmax == kernel::SoftmaxPolicy::kMaxFree ? " max_free" : "");
}

}  // namespace attnjit::codegen
