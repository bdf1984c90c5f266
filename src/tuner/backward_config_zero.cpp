#include "tuner/backward_config_zero.hpp"

#include <algorithm>

namespace attnjit::tuner {
namespace {

using codegen::BackwardTile;
using codegen::DbiasMethod;
using codegen::DqMethod;
using problem::Extent;

// Shared memory per thread block that data-centre parts have, and those from Hopper on, in bytes.
constexpr int kRoomy = 160 << 10, kRoomiest = 220 << 10;

bool has_mask(const problem::Family& f) { return problem::varies_over_keys(f.mask); }
bool has_bias(const problem::Family& f) { return f.bias != Extent::kAbsent; }

// Whether the operands want more registers than the fastest tiles leave them: those that are read
// element by element or are fp32, and a bias beside lengths.
bool crowded(const problem::Family& f) {
  return !f.aligned || (has_mask(f) && !f.mask_vectorized) ||
         (has_bias(f) && (f.seqlens || !f.bias_vectorized || f.bias_dtype == DType::kFloat32));
}

// Tiles of the kernel of dk and dv that do not spill. Where shared memory is roomiest, those
// without operands, with one 16-bit operand, or with two up to 128 columns and no dbias are the
// fastest of the ones timed on an H200 (2026-11-21); the others were not timed. Thread blocks of
// four warps, two per SM, beat one of eight by 5 to 10 %: one computes scores while the other
// multiplies. Wide heads need eight, half of which add up dq meanwhile. How short registers are
// depends on the operands, and so do `late` and `fresh`.
BackwardTile keys_tile(const problem::BackwardFamily& f, int columns, bool roomy, bool roomiest) {
  const bool bias = has_bias(f.scores), mask = has_mask(f.scores);
  const DbiasMethod dbias = codegen::default_dbias_method(f);
  const bool sums_columns = dbias == DbiasMethod::kColumns;
  const bool adds = dbias == DbiasMethod::kAdd;
  const bool stores = dbias == DbiasMethod::kStore;
  if (columns <= 64) {
    if (!roomy && crowded(f.scores)) return {64, 64, 2, 8, 4, 1};
    if (!roomiest && (bias || mask)) return {64, 64, 2, 4, 2, 2};
    if (!roomy || sums_columns || (bias && mask) || crowded(f.scores)) return {64, 64, 2, 4, 2, 2};
    if (!bias && !mask) return {64, 128, 2, 4, 2, 1, 0, 7};
    return {64, 128, 2, 4, 2, 1, adds, 3};
  }
  if (columns <= 128) {
    if (!roomy) return {64, 64, 1, 8, 4, 1};
    if (crowded(f.scores) || (mask && f.dbias != Extent::kAbsent)) return {64, 64, 2, 8, 4, 1};
    if (mask && bias) return {64, 64, 2, 4, 2, 1, 1, 0};
    if (sums_columns) return {64, 64, 2, 4, 2, 1, 0, 5};
    if (adds) return {64, 128, 2, 8, 2, 1, 1, 0};
    return {64, 64, 2, 4, 2, 1, !stores, 3};
  }
  if (!roomy) return {32, 32, 1, 8, 2, 1};
  if (crowded(f.scores) || (mask && bias) || f.scores.mask == Extent::kPerKey || sums_columns) {
    return {32, 32, 2, 8, 2, 1};
  }
  if (!roomiest) return {32, 64, 2, 8, 2, 1, 0, 3};
  if (bias || mask) return {64, 64, 2, 8, 2, 1, 1, 3};
  return {64, 64, 2, 8, 2, 1, 0, 7};
}

BackwardTile queries_tile(const problem::BackwardFamily& f, int columns, bool roomy) {
  const bool many = crowded(f.scores) || (has_mask(f.scores) && has_bias(f.scores));
  if (columns > 128) {
    return roomy && !many ? BackwardTile{64, 64, 1, 4, 4, 1} : BackwardTile{64, 32, 1, 4, 4, 1};
  }
  if (!roomy) return {64, 64, 1, 4, 4, 1};
  return many ? BackwardTile{128, 32, 2, 8, 8, 1} : BackwardTile{128, 32, 2, 4, 4, 1};
}

BackwardTile bias_tile(const problem::BackwardFamily& f, int columns, bool roomy) {
  if (columns > 128 && !roomy) return {32, 64, 1, 4, 2, 1};
  if (crowded(f.scores)) return {64, 64, 1, 8, 4, 1};
  if (columns <= 128 && roomy) return {128, 64, 1, 8, 4, 2};
  return {64, 64, 1, 4, 2, 1};
}

}  // namespace

codegen::BackwardTunables config_zero(const problem::BackwardPlanKey& key,
                                      const codegen::Arch& arch) {
  const problem::BackwardFamily& f = key.family;
  const int columns = std::max(f.scores.head_dim, f.scores.head_dim_v);
  const bool roomy = arch.shared_bytes_per_block >= kRoomy;
  return {.dq = f.deterministic ? DqMethod::kKernel : DqMethod::kAdd,
          .dbias = codegen::default_dbias_method(f),
          .split = !f.deterministic,
          .keys = keys_tile(f, columns, roomy, arch.shared_bytes_per_block >= kRoomiest),
          .queries = queries_tile(f, columns, roomy),
          .bias_tile = bias_tile(f, columns, roomy)};
}

}  // namespace attnjit::tuner
