#pragma once
#include "codegen/formula_text.hpp"

namespace attnjit::codegen {

/// Those of the ints and bools that `keep` reads at places which differ along one axis between the
/// rows or keys of a tile; of an operand that it reads along several axes, the first one.
std::vector<RangedAxis> ranged_axes(const expr::Interned& keep, bool packs_heads);

/// Parts of a formula as their ranges over the rows and keys of a tile, which score/
/// formula_ranges.cuh computes: i, j and, with pack_gqa, h are ranges, what does not vary
/// over the tile is a value as ever. Elements that differ between rows or keys are known along a
/// ranged axis, and by blocks of rows and keys; of others, and of floats that vary, nothing is
/// known.
class FormulaRanges : public FormulaText {
 public:
  FormulaRanges(const Formula& formula, Names names);

  /// Whether the range at `place` says no more than is known in every call.
  bool is_unknown(int place) const { return unknown_[static_cast<std::size_t>(place)]; }

 protected:
  Part part(int place) const override;
  std::string name_of(int place) const override;
  bool is_value(int place) const override { return !f_.varies(place); }

 private:
  bool find_unknown(int place) const;
  bool has_range(const expr::Node& read) const;
  bool is_by_blocks(const expr::Node& read) const;
  Part range_of(const expr::Node& read) const;

  std::vector<bool> unknown_;
};

}  // namespace attnjit::codegen
