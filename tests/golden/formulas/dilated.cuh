
#include "attnjit/score/formula_ranges.cuh"
#include "attnjit/score/formula_reads.cuh"

namespace attnjit::kernel {
namespace formula {

// j <= i + off && (i + off - j) % 4 == 0 && b0[b, j]
struct KeepFormula {
  static constexpr int kOperands = 1;
  static constexpr bool kUsesHead = false;

  struct Head {};
  struct Row {
    int v0;
  };
  struct Key {
    bool b0;
  };

  template <class Params>
  ATTNJIT_DEVICE static Head head(const Params& params, const Place& at) {
    return {};
  }
  template <class Params>
  ATTNJIT_DEVICE static Row row(const Params& params, const Place& at, const Head& head, int i, Along along) {
    const auto v0 = i + at.off;
    return {v0};
  }
  template <class Params>
  ATTNJIT_DEVICE static Key key(const Params& params, const Place& at, const Head& head, int j, Along along) {
    const auto b0 = line_bool(params.operands[0], at.b, along);
    return {b0};
  }
  template <class Params>
  ATTNJIT_DEVICE static bool keeps(const Params& params, const Place& at, const Head& head,
      const Row& row, const Key& key, int i, int j) {
    return ((j <= row.v0) & (((row.v0 - j) & 3) == 0)) & key.b0;
  }
  // Whether anything is known of a tile without a look at its elements.
  static constexpr bool kKnowsTiles = true;
  // Its truth over rows `i` and keys `j`.
  template <class Params>
  ATTNJIT_DEVICE static Truth tile(const Params& params, const Place& at, Span h, Span i, Span j) {
    const auto v0 = i + at.off;
    const auto b0 = truth_of(params.operands[0], at.b, Span(j));
    return ((j <= v0) & (floor_remainder(v0 - j, 4) == 0)) & b0;
  }
  static constexpr bool kNarrows = true;
  // Takes keys away that no row of `i` keeps.
  template <class Params>
  ATTNJIT_DEVICE static void narrow(const Params& params, const Place& at, Span i, Span& keys) {
    {
      keep_to(keys, i + at.off);
    }
  }
  static constexpr bool kPicksKeys = true;
  // Whether any row may keep key `j`.
  template <class Params>
  ATTNJIT_DEVICE static bool reads_key(const Params& params, const Place& at, int j) {
    [[maybe_unused]] const Along along = {j, 0};
    bool keeps = true;
    {
      const auto b0 = line_bool(params.operands[0], at.b, along);
      keeps &= b0;
    }
    return keeps;
  }
};

}  // namespace formula

using formula::KeepFormula;
using KeepParams = ExpressionParams<KeepFormula::kOperands>;

}  // namespace attnjit::kernel
