
#include "attnjit/score/formula_ranges.cuh"
#include "attnjit/score/formula_reads.cuh"

namespace attnjit::kernel {
namespace formula {

// abs(i + off - j) < i0
struct KeepFormula {
  static constexpr int kOperands = 1;
  static constexpr bool kUsesHead = false;

  struct Head {
    int i0;
  };
  struct Row {
    int v0;
  };
  struct Key {};

  template <class Params>
  ATTNJIT_DEVICE static Head head(const Params& params, const Place& at) {
    const auto i0 = read_int32(params.operands[0]);
    return {i0};
  }
  template <class Params>
  ATTNJIT_DEVICE static Row row(const Params& params, const Place& at, const Head& head, int i, Along along) {
    const auto v0 = i + at.off;
    return {v0};
  }
  template <class Params>
  ATTNJIT_DEVICE static Key key(const Params& params, const Place& at, const Head& head, int j, Along along) {
    return {};
  }
  template <class Params>
  ATTNJIT_DEVICE static bool keeps(const Params& params, const Place& at, const Head& head,
      const Row& row, const Key& key, int i, int j) {
    return magnitude(row.v0 - j) < head.i0;
  }
  // Whether anything is known of a tile without a look at its elements.
  static constexpr bool kKnowsTiles = true;
  // Its truth over rows `i` and keys `j`.
  template <class Params>
  ATTNJIT_DEVICE static Truth tile(const Params& params, const Place& at, Span h, Span i, Span j) {
    const auto i0 = read_int32(params.operands[0]);
    return magnitude(i + at.off - j) < i0;
  }
  static constexpr bool kNarrows = true;
  // Takes keys away that no row of `i` keeps.
  template <class Params>
  ATTNJIT_DEVICE static void narrow(const Params& params, const Place& at, Span i, Span& keys) {
    {
      const auto i0 = read_int32(params.operands[0]);
      keep_from(keys, wide(i) + (wide(at.off) - wide(i0) + wide(1)));
    }
    {
      const auto i0 = read_int32(params.operands[0]);
      keep_to(keys, wide(i) + (wide(i0) + wide(at.off) - wide(1)));
    }
  }
  static constexpr bool kPicksKeys = false;
  // Whether any row may keep key `j`.
  template <class Params>
  ATTNJIT_DEVICE static bool reads_key(const Params& params, const Place& at, int j) {
    [[maybe_unused]] const Along along = {j, 0};
    bool keeps = true;
    return keeps;
  }
};

}  // namespace formula

using formula::KeepFormula;
using KeepParams = ExpressionParams<KeepFormula::kOperands>;

}  // namespace attnjit::kernel
