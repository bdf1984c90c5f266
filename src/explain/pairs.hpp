#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "problem/problem.hpp"

/// WHY a call takes as long as it does: what its kernels count, which resource binds them, and what
/// would make it faster. Reads no device.
namespace attnjit::explain {

/// Values of a call that lie in device memory, so that a problem does not have them.
struct Values {
  std::vector<std::int32_t> cu_seqlens_q,
      cu_seqlens_kv;  ///< of packed sequences; empty: equal ones
  /// The share of tiles of so many rows and keys in which the mask or lists of blocks keep a pair;
  /// empty: 1.
  std::function<double(int rows, int keys)> kept_tiles;
};

/// Rows and keys of the tiles of a kernel.
struct TileSize {
  int block_q = 0, block_kv = 0;
  int heads = 1;  ///< query heads whose rows share a tile
};

/// Pairs of a query and a key, of all heads and batch elements, that a band and lengths leave.
struct Pairs {
  double kept = 0;
  double walked = 0;   ///< of the whole tiles that hold them
  double tiles = 0;    ///< these tiles
  double longest = 0;  ///< tiles of keys of the row tile that has most
};

/// The share of those tiles that the values of `problem` keep.
double kept_share(const problem::Problem& problem, const TileSize& tile, const Values& values);

Pairs count_pairs(const problem::Problem& problem, const TileSize& tile, const Values& values);

}  // namespace attnjit::explain
