#include <algorithm>

#include "tuner/config_zero.hpp"

namespace attnjit::tuner {
namespace {

using codegen::BackwardTile;
using codegen::DbiasMethod;
using codegen::DqMethod;
using codegen::Path;
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

// What nobody compiled every variant for: such problems get tiles with registers to spare.
bool unusual(const problem::Family& f) {
  const bool mask = has_mask(f), bias = has_bias(f);
  return (!f.aligned && (mask || bias)) || (bias && f.seqlens) ||
         (mask && bias && (f.bounded_left || !f.mask_vectorized || !f.bias_vectorized)) ||
         (mask && bias && f.bias_dtype == DType::kFloat32);
}

// The tiles of the kernel of dk and dv. On parts with the roomiest shared memory they are the
// fastest of the search space on an H200 (2026-11-21) whose `late` and `fresh` leave no spill, or
// next to none: which ones do is the compiler's whim. All were tried for bf16, full and causal,
// without lengths; other families may spill some bytes, and tuning finds what suits them. Thread
// blocks of four warps, two per SM, beat one of eight by 5 to 10 %: one computes scores while the
// other multiplies. Wide heads need eight, half of which add up dq meanwhile.

BackwardTile narrow_tile(const problem::BackwardFamily& f, DbiasMethod dbias, bool roomy,
                         bool roomiest) {
  const problem::Family& s = f.scores;
  const auto many_keys = [](int late, int fresh) {
    return BackwardTile{Path::kMma, 64, 128, 2, 4, 2, 1, late, fresh};
  };
  const BackwardTile safe = {Path::kMma, 64, 64, 2, 4, 2, 2};
  const bool adds = dbias == DbiasMethod::kAdd;
  if (!roomy && crowded(s)) return {Path::kMma, 64, 64, 2, 8, 4, 1};
  if (!roomiest && (!roomy || has_bias(s) || has_mask(s) || crowded(s))) return safe;
  if (unusual(s) || dbias == DbiasMethod::kColumns) return safe;
  if (!s.aligned) return many_keys(0, 3);
  const bool per_pair = s.mask == Extent::kPerPair;
  if (has_mask(s) && has_bias(s)) {
    if (per_pair) return dbias == DbiasMethod::kNone ? many_keys(1, 3) : safe;
    if (dbias == DbiasMethod::kNone) return safe;
    return adds ? many_keys(1, 0) : many_keys(0, 3);
  }
  if (has_mask(s)) {
    if (per_pair) return many_keys(0, s.mask_vectorized || s.bounded_right ? 3 : 0);
    return s.mask_vectorized ? many_keys(0, 7) : many_keys(1, 0);
  }
  if (!has_bias(s)) {
    if (!roomiest) return many_keys(0, 7);
    if (f.deterministic) return many_keys(0, s.bounded_right ? 3 : 5);
    const bool bare = !s.bounded_left && !s.bounded_right && !s.seqlens && s.positive_scale;
    return many_keys(0, bare ? 0 : 7);
  }
  if (s.bias == Extent::kPerKey) return many_keys(0, s.bounded_right ? 3 : 7);
  const bool heavy = !s.bias_vectorized || s.bias_dtype == DType::kFloat32;
  return heavy && !(adds && s.bias_vectorized) ? safe : many_keys(adds, 3);
}

BackwardTile middle_tile(const problem::BackwardFamily& f, DbiasMethod dbias, bool roomy,
                         bool roomiest) {
  const problem::Family& s = f.scores;
  const auto four_warps = [](int late, int fresh) {
    return BackwardTile{Path::kMma, 64, 64, 2, 4, 2, 1, late, fresh};
  };
  const BackwardTile safe = {Path::kMma, 64, 64, 2, 8, 4, 1};
  const bool stores = dbias == DbiasMethod::kStore;
  if (!roomy) return {Path::kMma, 64, 64, 1, 8, 4, 1};
  if (unusual(s)) return safe;
  if (!roomiest && has_mask(s)) {
    if (crowded(s) || f.dbias != Extent::kAbsent) return safe;
    return four_warps(1, has_bias(s) ? 0 : 3);
  }
  if (!roomiest && crowded(s)) return safe;
  if (!s.aligned) return {Path::kMma, 64, 128, 2, 8, 4, 1};
  if (has_mask(s) && has_bias(s)) {
    if (s.mask == Extent::kPerKey) return four_warps(1, 7);
    return dbias == DbiasMethod::kNone ? four_warps(1, 0) : safe;
  }
  if (has_mask(s)) {
    if (s.mask == Extent::kPerKey) return four_warps(0, 7);
    return s.mask_vectorized ? four_warps(1, s.bounded_right ? 7 : 3) : safe;
  }
  if (has_bias(s) && !s.bias_vectorized) return stores ? safe : four_warps(0, 7);
  if (has_bias(s) && s.bias_dtype == DType::kFloat32) {
    return stores ? BackwardTile{Path::kMma, 64, 128, 2, 8, 2, 1} : four_warps(1, 7);
  }
  if (dbias == DbiasMethod::kColumns) return four_warps(0, 5);
  if (dbias == DbiasMethod::kAdd) return {Path::kMma, 64, 128, 2, 8, 2, 1, 1, 0};
  if (roomiest && f.deterministic && !has_bias(s)) return four_warps(!s.bounded_right, 0);
  return four_warps(!stores, 3);
}

BackwardTile wide_tile(const problem::BackwardFamily& f, DbiasMethod dbias, bool roomy,
                       bool roomiest) {
  const problem::Family& s = f.scores;
  const auto eight_warps = [](int late, int fresh) {
    return BackwardTile{Path::kMma, 64, 64, 2, 8, 2, 1, late, fresh};
  };
  const BackwardTile fewer_rows = {Path::kMma, 32, 64, 2, 8, 2, 1, 0, 3};
  const bool adds = dbias == DbiasMethod::kAdd, sums_columns = dbias == DbiasMethod::kColumns;
  if (!roomy) return {Path::kMma, 32, 32, 1, 8, 2, 1};
  if (unusual(s) || (has_mask(s) && sums_columns)) return {Path::kMma, 32, 32, 2, 8, 2, 1};
  if (!roomiest) {
    const bool short_of_registers =
        crowded(s) || (has_mask(s) && has_bias(s)) || s.mask == Extent::kPerKey || sums_columns;
    return short_of_registers ? BackwardTile{Path::kMma, 32, 32, 2, 8, 2, 1} : fewer_rows;
  }
  if (!s.aligned) return eight_warps(0, 3);
  if (has_mask(s) && has_bias(s)) {
    const bool per_pair = s.mask == Extent::kPerPair;
    if (adds && per_pair) return s.bounded_right ? fewer_rows : eight_warps(0, 3);
    if (adds) return eight_warps(1, 7);
    const bool no_dbias = dbias == DbiasMethod::kNone;
    return no_dbias && per_pair ? eight_warps(!s.bounded_right, 3) : eight_warps(0, 0);
  }
  if (has_mask(s)) {
    return s.bounded_right || !s.mask_vectorized ? eight_warps(0, 0) : eight_warps(1, 3);
  }
  if (has_bias(s) && !s.bias_vectorized) return fewer_rows;
  if (sums_columns || (adds && !s.bounded_right && s.bias_dtype != DType::kFloat32)) {
    return eight_warps(0, 7);
  }
  return has_bias(s) ? eight_warps(1, 3) : eight_warps(0, 7);
}

BackwardTile dq_tile(const problem::BackwardFamily& f, int columns, bool roomy) {
  const bool many = crowded(f.scores) || (has_mask(f.scores) && has_bias(f.scores));
  if (columns > 128) {
    const bool plain = f.scores.aligned && !has_mask(f.scores) && !has_bias(f.scores);
    return roomy && plain ? BackwardTile{Path::kMma, 64, 64, 1, 4, 4, 1}
                          : BackwardTile{Path::kMma, 64, 32, 1, 4, 4, 1};
  }
  if (!roomy) return {Path::kMma, 64, 64, 1, 4, 4, 1};
  return many ? BackwardTile{Path::kMma, 128, 32, 2, 8, 8, 1}
              : BackwardTile{Path::kMma, 128, 32, 2, 4, 4, 1};
}

BackwardTile dbias_tile(const problem::BackwardFamily& f, int columns, bool roomy) {
  if (columns > 128 && !roomy) return {Path::kMma, 32, 64, 1, 4, 2, 1};
  if (crowded(f.scores)) return {Path::kMma, 64, 64, 1, 8, 4, 1};
  if (columns <= 128 && roomy) return {Path::kMma, 128, 64, 1, 8, 4, 2};
  return {Path::kMma, 64, 64, 1, 4, 2, 1};
}

// Sums of odd lengths are added one by one (BiasGradAdd), which costs more than the scores again:
// B4 H16 L2047, D64 3.80 -> 1.79 ms, D128 4.21 -> 3.09 (H200, 2026-11-21). D256 computes too much
// for that. A family does not know its lengths; rows that are not aligned are mostly of odd ones.
DbiasMethod dbias_method(const problem::BackwardFamily& f, int columns) {
  const DbiasMethod method = codegen::default_dbias_method(f);
  const bool one_by_one = !f.dbias_vectorized && columns <= 128;
  return method == DbiasMethod::kAdd && one_by_one ? DbiasMethod::kKernel : method;
}

}  // namespace

codegen::BackwardTunables config_zero(const problem::BackwardPlanKey& key,
                                      const codegen::Arch& arch) {
  const problem::BackwardFamily& f = key.family;
  const int columns = std::max(f.scores.head_dim, f.scores.head_dim_v);
  const bool roomy = arch.shared_bytes_per_block >= kRoomy;
  const bool roomiest = arch.shared_bytes_per_block >= kRoomiest;
  const DbiasMethod dbias = dbias_method(f, columns);
  return {.dq_method = f.deterministic ? DqMethod::kKernel : DqMethod::kAdd,
          .dbias_method = dbias,
          .split = !f.deterministic,
          .dkv = columns <= 64    ? narrow_tile(f, dbias, roomy, roomiest)
                 : columns <= 128 ? middle_tile(f, dbias, roomy, roomiest)
                                  : wide_tile(f, dbias, roomy, roomiest),
          .dq = dq_tile(f, columns, roomy),
          .dbias = dbias_tile(f, columns, roomy)};
}

}  // namespace attnjit::tuner
