#include "tuner/backward_config_zero.hpp"

#include <algorithm>

namespace attnjit::tuner {
namespace {

using codegen::BackwardTile;
using codegen::DbiasMethod;
using codegen::DqMethod;

// Shared memory per thread block that data-centre parts have, and those from Hopper on, in bytes.
constexpr int kRoomy = 160 << 10, kRoomiest = 220 << 10;

using problem::Extent;

// Tiles of the kernel of dk and dv: the fastest on an H200 (2026-11-21) where shared memory is
// roomy. Thread blocks of four warps, two per SM, beat one of eight by 5 to 10 %: one computes
// scores while the other multiplies. With a bias or mask a few bytes spill, outside the products.
BackwardTile keys_tile(const problem::BackwardFamily& f, int columns, bool roomy, bool roomiest) {
  const bool operands = f.scores.bias != Extent::kAbsent || f.scores.mask != Extent::kAbsent;
  if (columns <= 64) {
    if (!roomy || operands) return {64, 64, 2, 4, 2, 2};
    return {64, 128, 2, 4, 2, 1};
  }
  if (columns <= 128) {
    if (!roomy) return {64, 64, 1, 8, 4, 1};
    const bool stores = f.dbias == Extent::kPerPair && !f.dbias_reduces_planes;
    return stores ? BackwardTile{64, 128, 2, 8, 2, 1} : BackwardTile{64, 64, 2, 4, 2, 1};
  }
  if (!roomy) return {32, 32, 1, 4, 2, 1};
  return roomiest ? BackwardTile{64, 64, 2, 8, 2, 1} : BackwardTile{64, 64, 1, 8, 2, 1};
}

BackwardTile queries_tile(int columns, bool roomy) {
  if (columns <= 128) {
    return roomy ? BackwardTile{128, 32, 2, 4, 4, 1} : BackwardTile{64, 64, 1, 4, 4, 1};
  }
  return roomy ? BackwardTile{64, 64, 1, 4, 4, 1} : BackwardTile{64, 32, 1, 4, 4, 1};
}

BackwardTile bias_tile(int columns, bool roomy) {
  if (columns <= 128 && roomy) return {128, 64, 1, 8, 4, 2};
  if (columns <= 128 || roomy) return {64, 64, 1, 4, 2, 1};
  return {32, 64, 1, 4, 2, 1};
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
          .queries = queries_tile(columns, roomy),
          .bias_tile = bias_tile(columns, roomy)};
}

}  // namespace attnjit::tuner
