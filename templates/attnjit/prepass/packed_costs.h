#pragma once
#include "attnjit/types.h"

namespace attnjit::kernel {

// Of a band over packed sequences, what tells blocks of rows that cost much from those that cost
// little.
struct PackedCosts {
  int32 rising;        // rows see the more keys the later they come
  int32 bottom_right;  // the end of their diagonal is that of the sequence
  int32 ahead;         // keys by which it lies further right
  int32 widest;        // keys that a row sees at most
};

// The cost of block of rows `block` of a sequence, in as many keys as it has queries, `unit`.
// Lengths in use and masks aside, which move costs, not blocks.
ATTNJIT_INLINE_CONSTEXPR int packed_cost(const PackedCosts& costs, int queries, int keys, int unit,
                                         int block) {
  const int seen = keys < costs.widest + unit ? keys : costs.widest + unit;
  const int most = ceil_div(seen, unit);
  if (costs.rising == 0) return most;
  const int diagonal = costs.ahead + (costs.bottom_right != 0 ? keys - queries : 0);
  const int cost = block + 1 + diagonal / unit;
  return cost < 0 ? 0 : cost < most ? cost : most;
}

// Costs by size: each of those up to 63 has a bucket of its own, and each 32nd of those between two
// powers of two above.
inline constexpr int kCostBuckets = 1024;  // enough for every cost of 32 bits
ATTNJIT_INLINE_CONSTEXPR int cost_bucket(int cost) {
  int halvings = 0;
  while (cost >> halvings >= 64) ++halvings;
  return 32 * halvings + (cost >> halvings);
}
// The time of a block of rows of a bucket at least, in that of as many keys: the start of one takes
// about half of it.
ATTNJIT_INLINE_CONSTEXPR float bucket_time(int bucket) {
  const int halvings = bucket < 64 ? 0 : bucket / 32 - 1;
  const auto leading = static_cast<uint32>(bucket - 32 * halvings);
  return static_cast<float>(leading << halvings) + 0.5f;
}

}  // namespace attnjit::kernel
