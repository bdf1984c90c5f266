#include "tuner/traits.hpp"

#include <algorithm>

#include "codegen/features.hpp"

namespace attnjit::tuner {
namespace {

using problem::Extent;
using problem::Family;

bool wide_bias(const Family& f) {
  return f.bias_vectorized && f.bias_dtype != DType::kFloat32 && !codegen::reads_pairs(f);
}

// Elements that an expression reads for each pair take the registers of a bias.
bool has_bias(const Family& f) {
  return problem::varies_over_keys(f.bias) || codegen::reads_pairs(f);
}

// The wider of two tiles that blocks of `size` hold whole.
int widest_tile(std::int64_t size) {
  return size == 0 ? 0 : size % 128 == 0 ? 128 : size % 64 == 0 ? 64 : 0;
}

Traits shared_traits(const Family& f, int heads, bool mask, bool bias, const codegen::Arch& arch) {
  using enum Operands;
  const KeepTile keep = keep_tile(f, heads);
  return {.head_dim = std::max(f.head_dim, f.head_dim_v),
          .dtype = f.dtype,
          .shared_kib = arch.shared_bytes_per_block >> 10,
          .operands = mask && bias ? kBoth
                      : mask       ? kMask
                      : bias       ? kBias
                                   : kNone,
          .aligned = f.aligned,
          .fp32_bias = bias && f.bias_vectorized && f.bias_dtype == DType::kFloat32,
          .mask_per_pair = f.mask == Extent::kPerPair,
          .bias_per_pair = bias && (f.bias != Extent::kPerKey || codegen::reads_pairs(f)),
          .bounded_left = problem::has_left_bound(f),
          .bounded_right = problem::has_right_bound(f),
          .seqlens = f.seqlens || f.packed,
          .positive_scale = f.positive_scale,
          .softcap = codegen::transforms_scores(f),
          .keep_block_q = keep.block_q,
          .keep_block_kv = keep.block_kv};
}

// Whether a tile of 64 rows and keys, or one made for the lengths, holds a plane and is well
// filled. The latter takes an SM for itself, or half of one: its planes have to be many.
template <class PlanKey>
bool fills_single_tile(const PlanKey& key) {
  constexpr std::int32_t kTile = problem::kMostInexact;
  const bool fits_tile = key.bucket_q == kTile && key.bucket_kv == kTile;
  const bool exact = problem::has_exact_lengths(problem::scores(key), key.bucket_q, key.bucket_kv,
                                                key.bucket_planes);
  return (fits_tile || exact) && !codegen::why_no_single_tile(key.family);
}

// The bucket of planes from which on a strip of a bias is worth keeping.
constexpr std::int32_t kFewestPlanes = 256;

}  // namespace

KeepTile keep_tile(const Family& f, int pack_gqa_heads) {
  if (!f.keep) return {};
  const expr::ReadBlocks& blocks = f.keep->blocks;
  return {widest_tile(blocks.rows * pack_gqa_heads), widest_tile(blocks.keys)};
}

Traits traits(const problem::PlanKey& key, bool pack_gqa, const codegen::Arch& arch) {
  const Family& f = key.family;
  const bool bias = has_bias(f);
  const int heads = pack_gqa ? f.gqa_ratio : 1;
  Traits t = shared_traits(f, heads, problem::varies_over_keys(f.mask), bias, arch);
  t.rows = key.bucket_q * heads;
  t.pack_gqa = pack_gqa;
  // Packed, 64 rows and more are to hold whole queries.
  t.wgmma = (!pack_gqa || 64 % f.gqa_ratio == 0) && !codegen::why_no_wgmma(f, arch);
  t.single_tile = !pack_gqa && fills_single_tile(key);
  t.shared_bias = problem::is_strip_bucket(key.bucket_kv) && key.bucket_planes >= kFewestPlanes &&
                  !codegen::why_no_shared_bias(f, arch);
  t.wide = !bias || wide_bias(f);
  t.tail_mask = f.tail_mask;
  return t;
}

Traits traits(const problem::BackwardPlanKey& key, codegen::DbiasMethod dbias,
              const codegen::Arch& arch) {
  const Family& f = key.family.scores;
  const bool mask = problem::varies_over_keys(f.mask), bias = has_bias(f);
  Traits t = shared_traits(f, 1, mask, bias, arch);
  // Tiles are chosen for blocks where the kernel of dk and dv tells its warpgroups' keys apart.
  if (f.keep && f.keep->dtypes.size() != 1) t.keep_block_q = t.keep_block_kv = 0;
  t.rows = key.bucket_q;
  t.wgmma = !codegen::why_no_wgmma(key.family, arch);
  t.single_tile = fills_single_tile(key);
  t.shared_bias = problem::has_strip_lengths(key.family, key.bucket_q, key.bucket_kv) &&
                  key.bucket_planes >= kFewestPlanes && !codegen::why_no_shared_bias(key.family);
  t.wide = (!mask || f.mask_vectorized) && (!bias || wide_bias(f));
  t.dbias = dbias;
  t.deterministic = key.family.deterministic;
  t.separate_dq = codegen::separates_dq(key.family);
  return t;
}

}  // namespace attnjit::tuner
