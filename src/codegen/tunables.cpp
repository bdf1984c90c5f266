#include "codegen/tunables.hpp"

#include <fmt/format.h>

#include "codegen/tunable_rules.hpp"

namespace attnjit::codegen {
namespace {

using problem::Extent;

Rule why_wgmma_unfit(const ForwardTunables& t, const problem::Family& f, const Arch& arch) {
  if (const Rule rule = why_no_wgmma(f, arch)) return fmt::format("path: {}; use mma", *rule);
  if (t.num_warps * 16 != t.block_q) return "num_warps must be block_q / 16 with path wgmma";
  if (t.min_blocks != 1) return "min_blocks must be 1 with path wgmma";
  if (t.softmax != kernel::SoftmaxPolicy::kMaxFree)
    return "softmax must be max_free with path wgmma";
  const kernel::ForwardWgmmaConfig config = forward_wgmma_config(f, t);
  if (Rule rule = why_invalid(config, config.shared_bytes(), arch)) return rule;
  if (fits_pages(t.block_kv, f.page_size)) return std::nullopt;
  return fmt::format("block_kv must divide or be a multiple of page_size {} with path wgmma",
                     f.page_size);
}

}  // namespace

Rule why_no_wgmma(const problem::Family& f, const Arch& arch) {
  if (!arch.wgmma) return fmt::format("wgmma does not exist on {}", arch.name);
  if (f.mask_packs_keys) return "wgmma does not support a mask over keys with cu_seqlens_kv";
  if (f.mask_in_place)
    return "wgmma does not support a mask that is read as bytes, as with at most 16 query rows";
  if (!fits_pages(32, f.page_size)) return "wgmma needs page_size 16 or a multiple of 32";
  if (!f.aligned) {
    return "wgmma needs addresses and strides of q, k, v and out to be multiples of 16 bytes";
  }
  return std::nullopt;
}

Rule why_unfit(const ForwardTunables& tunables, const problem::Family& family, const Arch& arch) {
  if (auto rule = why_out_of_range(tunables)) return rule;
  if (tunables.pack_heads && family.mask_per_query_head) {
    return "pack_heads is true; the heads of a kv head must share the mask";
  }
  if (tunables.pack_heads && family.mask == Extent::kPerPair &&
      tunables.block_q % family.gqa_ratio != 0) {
    return fmt::format("pack_heads is true; with this mask block_q must be a multiple of {}",
                       family.gqa_ratio);
  }
  if (tunables.path == Path::kWgmma) return why_wgmma_unfit(tunables, family, arch);
  const kernel::ForwardConfig config = forward_config(family, tunables);
  return why_invalid(config, config.shared_bytes(), arch);
}

std::string describe_tile(const ForwardTunables& t) {
  if (t.path == Path::kWgmma) {
    return fmt::format("wgmma q{}{} kv{} s{}", t.block_q, t.pack_heads ? " packed" : "", t.block_kv,
                       t.num_stages);
  }
  return fmt::format("q{}{} kv{} s{} w{} b{}{}", t.block_q, t.pack_heads ? " packed" : "",
                     t.block_kv, t.num_stages, t.num_warps, t.min_blocks,
                     t.softmax == kernel::SoftmaxPolicy::kMaxFree ? " max_free" : "");
}

}  // namespace attnjit::codegen
