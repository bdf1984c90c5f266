#include "tuner/config_zero.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "attnjit/error.hpp"
#include "codegen/tunable_rules.hpp"

namespace attnjit::tuner {
namespace {

using codegen::DbiasMethod;
using codegen::DqMethod;

// Whether all heads of a kv head keep the same blocks, of fewer rows than a tile, and have no bias
// over pairs, which pack_gqa reads without a tensor map.
bool shares_short_blocks(const problem::Family& f) {
  if (keep_tile(f, 1).block_q != 64 || f.bias == problem::Extent::kPerPair) return false;
  return (f.keep->uses & expr::use_of(expr::Index::kHeadQ)) == 0;
}

// Short queries of several heads fill a tile together, and K and V are read once for all. Tiles
// have 16 rows or a multiple of 64; those of wgmma hold whole queries, and pay for longer ones too.
bool pack_gqa(const problem::PlanKey& key, const codegen::Arch& arch) {
  const problem::Family& f = key.family;
  const bool whole = 64 % f.gqa_ratio == 0;
  const bool wgmma = whole && !codegen::why_no_wgmma(f, arch);
  const bool few = key.bucket_q <= (wgmma ? 64 : 16) || (wgmma && shares_short_blocks(f));
  return f.gqa_ratio > 1 && few && !f.mask_per_query_head &&
         (f.mask != problem::Extent::kPerPair || whole);
}

// The way in which dq comes about on path wgmma. Short backwards move more than they multiply, and
// zeros that are neither written nor read are worth the wait for the first keys: 16k tokens of 16
// heads of 128 columns gain 6 % with 512 queries and 3 % with 1024, 14 % there under a causal mask,
// and heads of 64 columns 3, 0 and 4 % (H100, 2026-11-25). Under a causal mask 128 columns gain 7 %
// with 1536 and 3 % with 2048, 1 % where heads share keys, and 64 lose up to 2 % (H100,
// 2026-11-26). Not so in a window, where every tile of queries has other first keys, which begin
// late: 1024 queries in windows of 256 keys took 1.8 times as long, and 2.6 times with 64 columns;
// only heads that share keys took 0.8 (H100, 2026-11-26).
DqMethod wgmma_dq_method(const problem::BackwardPlanKey& key) {
  const problem::Family& f = key.family.scores;
  if (codegen::separates_dq(key.family)) return DqMethod::kKernel;
  if (key.family.deterministic || codegen::why_no_first_keys(f)) return DqMethod::kAdd;
  if (problem::has_left_bound(f) && f.gqa_ratio == 1) return DqMethod::kAdd;
  const bool causal = problem::rows_rise(f);
  const bool wide = std::max(f.head_dim, f.head_dim_v) > 64;
  return key.bucket_q <= (causal && wide ? 2048 : 1024) ? DqMethod::kFirstStores : DqMethod::kAdd;
}

// The way in which dbias comes about there. Partials of few planes are written and read once each,
// where sums are set to zero, added to and rounded.
DbiasMethod wgmma_dbias_method(const problem::BackwardFamily& f, DbiasMethod method) {
  const bool stores = method == DbiasMethod::kStore && !codegen::why_no_stored_tiles(f);
  return stores || codegen::why_no_per_plane(f) ? method : DbiasMethod::kPerPlane;
}

// The paths that configuration 0 may take beside Path::kMma.
struct Paths {
  bool wgmma = true, single_tile = true, shared_bias = true;
};

Traits limited(Traits traits, const Paths& paths) {
  traits.wgmma &= paths.wgmma;
  traits.single_tile &= paths.single_tile;
  traits.shared_bias &= paths.shared_bias;
  return traits;
}

// Makes a tile of path single_tile hold the planes of a key.
template <class Tile, class PlanKey>
void hold_planes(Tile& tile, const PlanKey& key) {
  tile.block_q = kernel::round_up(key.bucket_q, 16);
  tile.block_kv = kernel::round_up(key.bucket_kv, 32);
}

// Whether `config` takes `path` and its planes do not fit `arch`.
template <class Tunables, class PlanKey>
bool exceeds(const Tunables& config, codegen::Path path, const PlanKey& key,
             const codegen::Arch& arch) {
  return codegen::main_path(config) == path && codegen::why_unfit(config, key, arch).has_value();
}

// Makes strips of path shared_bias hold the planes of a key: 64 rows of up to 384 columns, whose
// sums take 48 registers a thread, or 32 of up to 768.
void hold_strips(codegen::BackwardTunables& config, const problem::BackwardPlanKey& key) {
  const int longest = std::max(key.bucket_q, key.bucket_kv), rows = longest <= 384 ? 64 : 32;
  const int step = 512 / (rows / 16);
  config.dkv.block_q = kernel::round_up(key.bucket_q, step);
  config.dkv.block_kv = config.dq.block_q = rows;
  config.dq.block_kv = kernel::round_up(key.bucket_kv, step);
}

codegen::ForwardTunables config_within(const Paths& paths, const problem::PlanKey& key,
                                       const codegen::Arch& arch, const Defaults& defaults) {
  const bool packs_gqa = pack_gqa(key, paths.wgmma ? arch : codegen::without_wgmma(arch));
  codegen::ForwardTunables config =
      defaults.forward.find(limited(traits(key, packs_gqa, arch), paths)).use;
  config.pack_gqa = packs_gqa;
  if (config.path == codegen::Path::kSingleTile) hold_planes(config, key);
  if (config.path == codegen::Path::kSharedBias) config.block_kv = key.bucket_kv;
  if (exceeds(config, codegen::Path::kSingleTile, key, arch)) {
    return config_within(
        {.wgmma = paths.wgmma, .single_tile = false, .shared_bias = paths.shared_bias}, key, arch,
        defaults);
  }
  // 32 keys fit the pages of any family that wgmma serves.
  const bool boxes = config.path == codegen::Path::kWgmma;
  while (boxes && !codegen::fits_pages(config.block_kv, key.family.page_size)) {
    config.block_kv -= 32;
  }
  return config;
}

codegen::BackwardTunables config_within(const Paths& paths, const problem::BackwardPlanKey& key,
                                        const codegen::Arch& arch, const Defaults& defaults) {
  const problem::BackwardFamily& f = key.family;
  const DbiasMethod method = codegen::default_dbias_method(f);
  const Traits t = limited(traits(key, method, arch), paths);
  // The path mma is not deterministic when it adds.
  codegen::BackwardTunables config{
      .dq_method = f.deterministic ? DqMethod::kKernel : DqMethod::kAdd,
      .dbias_method = method,
      .split = !f.deterministic,
      .dkv = defaults.dkv.find(t).use,
      .dq = defaults.dq.find(t).use,
      .dbias = defaults.dbias.find(t).use};
  if (config.dkv.path == codegen::Path::kWgmma) {
    config.dq_method = wgmma_dq_method(key);
    config.dbias_method = wgmma_dbias_method(f, method);
  } else if (config.dkv.path == codegen::Path::kSingleTile) {
    const bool reduces = method == DbiasMethod::kAdd || method == DbiasMethod::kKernel;
    config.dq_method = DqMethod::kOwnKvHead;
    hold_planes(config.dkv, key);
    if (reduces) config.dbias_method = DbiasMethod::kPerBlock;
    config.split = false;
  } else if (config.dkv.path == codegen::Path::kSharedBias) {
    config.dq_method = DqMethod::kKernel;
    config.dbias_method = DbiasMethod::kPerBlock;
    config.split = false;
    config.dq = config.dkv;
    hold_strips(config, key);
  }
  Paths others = paths;
  for (const auto& [path, allowed] : {std::pair{codegen::Path::kSingleTile, &others.single_tile},
                                      std::pair{codegen::Path::kSharedBias, &others.shared_bias}}) {
    if (exceeds(config, path, key, arch)) config.dkv.num_stages = config.dq.num_stages = 1;
    if (!exceeds(config, path, key, arch)) continue;
    *allowed = false;
    return config_within(others, key, arch, defaults);
  }
  return config;
}

[[noreturn]] void refuse_path(const std::string& why) {
  throw Error(ErrorKind::kUnsupported, fmt::format("path {}; use path auto or path mma", why));
}

// That rule, or why configuration 0 takes another path where `what` serves the problem.
template <class PlanKey>
[[noreturn]] void refuse_single_tile(const PlanKey& key) {
  refuse_path(
      codegen::why_no_single_tile(key.family)
          .value_or("single_tile is for planes of 17 to 64 rows and keys, heads of up to 64 "
                    "columns that share no keys, and for many longer ones that "
                    "configs/defaults names"));
}

}  // namespace

codegen::ForwardTunables config_zero(const problem::PlanKey& key, const codegen::Arch& arch,
                                     const Defaults& defaults) {
  return config_within(Paths{}, key, arch, defaults);
}

codegen::BackwardTunables config_zero(const problem::BackwardPlanKey& key,
                                      const codegen::Arch& arch, const Defaults& defaults) {
  return config_within(Paths{}, key, arch, defaults);
}

codegen::ForwardTunables config_zero_on(codegen::Path path, const problem::PlanKey& key,
                                        const codegen::Arch& arch) {
  const Paths paths{.wgmma = path == codegen::Path::kWgmma,
                    .single_tile = path == codegen::Path::kSingleTile,
                    .shared_bias = path == codegen::Path::kSharedBias};
  const codegen::ForwardTunables config = config_within(paths, key, arch, built_in_defaults());
  if (config.path == path) return config;
  if (path == codegen::Path::kSingleTile) refuse_single_tile(key);
  if (path == codegen::Path::kSharedBias) {
    refuse_path(
        codegen::why_no_shared_bias(key.family, arch)
            .value_or("shared_bias is for 209 to 384 keys of many planes that share a bias, "
                      "and for head dimensions that configs/defaults names"));
  }
  refuse_path(why_mma(key, arch));
}

codegen::BackwardTunables config_zero_on(codegen::Path path, const problem::BackwardPlanKey& key,
                                         const codegen::Arch& arch) {
  const Paths paths{.wgmma = path == codegen::Path::kWgmma,
                    .single_tile = path == codegen::Path::kSingleTile,
                    .shared_bias = path == codegen::Path::kSharedBias};
  if (paths.wgmma) {
    if (const auto rule = codegen::why_no_wgmma(key.family, arch)) refuse_path(*rule);
  }
  const codegen::BackwardTunables config = config_within(paths, key, arch, built_in_defaults());
  if (paths.single_tile && config.dkv.path != path) refuse_single_tile(key);
  if (paths.shared_bias && config.dkv.path != path) {
    refuse_path(
        codegen::why_no_shared_bias(key.family)
            .value_or("shared_bias is for 209 to 768 rows and keys of many planes, and for head "
                      "dimensions that configs/defaults names"));
  }
  return config;
}

std::string why_mma(const problem::PlanKey& key, const codegen::Arch& arch) {
  return codegen::why_no_wgmma(key.family, arch)
      .value_or("wgmma has tiles of at least 64 rows, too many for this problem");
}

std::string why_mma(const problem::BackwardPlanKey& key, const codegen::Arch& arch) {
  return codegen::why_no_wgmma(key.family, arch).value_or("no rule names wgmma there");
}

}  // namespace attnjit::tuner
