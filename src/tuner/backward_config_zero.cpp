#include "tuner/backward_config_zero.hpp"

#include <algorithm>

namespace attnjit::tuner {
namespace {

using codegen::BackwardTile;
using codegen::DbiasMethod;
using codegen::DqMethod;

// Shared memory that consumer parts lack and data-centre parts have.
constexpr int kRoomy = 160 << 10;

// Tiles of the kernel of dk and dv: the widest that compile without a spill.
BackwardTile keys_tile(int columns, bool roomy) {
  if (columns <= 64) {
    return roomy ? BackwardTile{64, 128, 2, 8, 2, 1} : BackwardTile{64, 64, 2, 4, 2, 1};
  }
  if (columns <= 128) return {64, 64, 1, 8, 4, 1};
  if (roomy) return {64, 64, 1, 8, 4, 1};
  return {32, 32, 1, 4, 2, 1};
}

BackwardTile queries_tile(int columns, bool roomy) {
  if (columns <= 64) return {128, 64, 2, 8, 8, 1};
  if (columns <= 128) {
    return roomy ? BackwardTile{128, 64, 1, 8, 8, 1} : BackwardTile{64, 64, 1, 4, 4, 1};
  }
  return roomy ? BackwardTile{64, 64, 1, 4, 4, 1} : BackwardTile{64, 32, 1, 4, 4, 1};
}

BackwardTile bias_tile(int columns, bool roomy) {
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
          .keys = keys_tile(columns, roomy),
          .queries = queries_tile(columns, roomy),
          .bias_tile = bias_tile(columns, roomy)};
}

}  // namespace attnjit::tuner
