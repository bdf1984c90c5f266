#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "expr/expr.hpp"

namespace attnjit::expr {

/// Terms whose conjunction is `keep`, simplified: those of &&, and those of ! over ||.
std::vector<Expr> conjuncts(const Expr& keep);

/// The keys that a row keeps: those from `lower` to `upper`, both included and functions of the
/// row, of which the terms of `rest` hold.
struct KeyBounds {
  std::optional<Expr> lower;  ///< absent: 0
  std::optional<Expr> upper;  ///< absent: Lk - 1
  std::vector<Expr> rest;
};

/// The bounds of j that the conjuncts of `keep` are: comparisons of ints that are linear in i and
/// j, where j has the factor 1 or -1 and i has 1, -1 or 0, also of abs() of such, and whose other
/// terms are free of i and j. All other conjuncts are the rest. No bound wraps where the comparison
/// did not.
KeyBounds key_bounds(const Expr& keep);

/// The conjuncts of `keep` that read only b, g and j, off, Lq and Lk, which b fixes, and operands
/// by these: a key that one of them drops is known to be unread.
std::vector<Expr> key_conjuncts(const Expr& keep);

/// Whether rows keep no keys past a bound to the right of which first rows keep none, and none
/// ahead of one to the left of which last rows keep none.
struct BoundedSides {
  bool left = false, right = false;
};

/// Those of `keep` where rows and keys are many, as intervals prove it.
BoundedSides bounded_sides(const Expr& keep);

/// Rows and keys of the blocks by which operands are read, as `lists[b, h, i // 64, j // 64]` is:
/// the greatest number that divides the sizes of all blocks; 0 where nothing is read so.
struct ReadBlocks {
  std::int64_t rows = 0, keys = 0;
};

/// Those of `keep`, in reads whose indices are by blocks of both.
ReadBlocks read_blocks(const Expr& keep);

}  // namespace attnjit::expr
