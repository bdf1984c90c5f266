#pragma once
#include <cstdint>

#include "launch/forward_plan_spec.hpp"

namespace attnjit::launch {

/// The packed form of a problem's mask: how many planes, rows, words and tiles it has.
struct MaskTiles {
  std::int64_t planes = 0;  ///< distinct (batch, head) pairs
  std::int32_t rows = 0;    ///< queries of the mask; 1 where all share it
  std::int32_t words_per_row = 0;
  std::int32_t q_tiles = 0, kv_tiles = 0;

  std::int64_t words() const { return planes * rows * words_per_row; }
  std::int64_t classes() const { return planes * q_tiles * kv_tiles; }
};

MaskTiles mask_tiles(const kernel::MaskPackConfig& config, const problem::Problem& problem);

}  // namespace attnjit::launch
