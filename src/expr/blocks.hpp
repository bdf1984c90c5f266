#pragma once
#include <cstdint>
#include <optional>

#include "expr/expr.hpp"

namespace attnjit::expr {

/// The operands that say of each block, [b, h or g, block of rows, block of keys], whether a list
/// names it, and whether one of the full lists does. Blanks in them: no text has these names.
inline constexpr const char* kListedBlocks = "listed blocks";
inline constexpr const char* kFullBlocks = "full blocks";

/// The sizes by which lists of blocks count, and the heads that have lists.
struct BlockGrid {
  std::int64_t rows = 0, keys = 0;  ///< of a block
  Index head = Index::kHeadQ;       ///< kHeadQ or kHeadKv
  bool has_full = false;            ///< there are full lists
};

/// The pairs of listed blocks that `keep` keeps, and all pairs of full ones. `keep` is simplified;
/// absent, it keeps every pair. Rows and keys are counted from those of the call on, whatever
/// offsets `keep` has. Throws Error(kInvalidProblem) where there are too many operands.
Expr within_blocks(const std::optional<Expr>& keep, const BlockGrid& blocks);

}  // namespace attnjit::expr
