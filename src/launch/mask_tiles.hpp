#pragma once
#include <cstdint>

#include "attnjit/score/bit_mask_params.h"
#include "attnjit/tile/tile_use.h"
#include "problem/problem.hpp"

namespace attnjit::launch {

/// The bits of a mask over keys: how many planes, rows, words and classes it has. It depends
/// on the mask alone.
struct MaskTiles {
  std::int64_t planes = 0;  ///< distinct (batch, head) pairs
  std::int32_t rows = 0;    ///< queries of the mask; 1 where all share it
  std::int32_t keys = 0;
  std::int32_t words_per_row = 0;          ///< of 32 keys
  std::int32_t q_tiles = 0, kv_tiles = 0;  ///< of kMaskTile; the last of keys may lie past them

  explicit MaskTiles(const problem::Operand& mask)
      : planes(std::int64_t{mask.num_batches} * mask.num_heads),
        rows(mask.queries),
        keys(mask.keys),
        words_per_row(kernel::round_up(kernel::ceil_div(mask.keys, 32), kernel::kMaskGroupWords)),
        q_tiles(kernel::ceil_div(mask.queries, kernel::kMaskTile)),
        kv_tiles(words_per_row * 32 / kernel::kMaskTile) {}

  std::int64_t words() const { return planes * rows * words_per_row; }
  /// Bits by keys: one of 64 for each key of a row's words and tile of queries.
  std::int64_t columns() const { return planes * q_tiles * words_per_row * 32; }
  std::int64_t classes() const { return planes * q_tiles * kv_tiles; }
};

}  // namespace attnjit::launch
