#pragma once
#include "attnjit/types.h"

namespace attnjit::kernel {

// Of a band over packed sequences, what tells blocks of rows that cost much from those that cost
// little.
struct PackedOrder {
  int32 rising;        // rows see the more keys the later they come
  int32 bottom_right;  // the end of their diagonal is that of the sequence
  int32 ahead;         // keys by which it lies further right
  int32 widest;        // keys that a row sees at most
};

// The costs of the blocks of rows of a sequence, in as many keys as a block has queries. They never
// fall from a block to the next one, and rise by one where they are neither 0 nor `most`.
struct BlockCosts {
  int blocks;
  int shift;  // cost of a block before the first one
  int most;
  bool rising;

  ATTNJIT_INLINE_CONSTEXPR int cost(int block) const {
    return rising ? clamp(block + 1 + shift, most) : most;
  }
  // Blocks that cost less than `limit`, 0 or more.
  ATTNJIT_INLINE_CONSTEXPR int below(int limit) const {
    if (limit > most) return blocks;
    return rising && limit > 0 ? clamp(limit - 1 - shift, blocks) : 0;
  }

 private:
  ATTNJIT_INLINE_CONSTEXPR static int clamp(int value, int high) {
    return value < 0 ? 0 : value < high ? value : high;
  }
};

// Those of blocks of `size` rows, `heads` of each query. Lengths in use and masks aside, which move
// costs, not blocks.
ATTNJIT_INLINE_CONSTEXPR BlockCosts block_costs(const PackedOrder& order, int queries, int keys,
                                                int size, int heads) {
  const int unit = size / heads;
  const int seen = keys < order.widest + unit ? keys : order.widest + unit;
  const int diagonal = order.ahead + (order.bottom_right != 0 ? keys - queries : 0);
  return {ceil_div(queries * heads, size), diagonal / unit, ceil_div(seen, unit),
          order.rising != 0};
}

}  // namespace attnjit::kernel
