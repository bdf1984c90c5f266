
#include "attnjit/score/formula_ranges.cuh"
#include "attnjit/score/formula_reads.cuh"

namespace attnjit::kernel {
namespace formula {

// i0[b, i] == i1[b, j]
struct KeepFormula {
  static constexpr int kOperands = 2;
  static constexpr bool kUsesHead = false;

  struct Head {};
  struct Row {
    int i0;
  };
  struct Key {
    int i1;
  };

  template <class Params>
  ATTNJIT_DEVICE static Head head(const Params& params, const Place& at) {
    return {};
  }
  template <class Params>
  ATTNJIT_DEVICE static Row row(const Params& params, const Place& at, const Head& head, int i, Along along) {
    const auto i0 = line_int32(params.operands[0], at.b, along);
    return {i0};
  }
  template <class Params>
  ATTNJIT_DEVICE static Key key(const Params& params, const Place& at, const Head& head, int j, Along along) {
    const auto i1 = line_int32(params.operands[1], at.b, along);
    return {i1};
  }
  template <class Params>
  ATTNJIT_DEVICE static bool keeps(const Params& params, const Place& at, const Head& head,
      const Row& row, const Key& key, int i, int j) {
    return row.i0 == key.i1;
  }
  // Whether anything is known of a tile without a look at its elements.
  static constexpr bool kKnowsTiles = true;
  // Its truth over rows `i` and keys `j`.
  template <class Params>
  ATTNJIT_DEVICE static Truth tile(const Params& params, const Place& at, Span h, Span i, Span j) {
    const auto i0 = range_of(params.operands[0], at.b, Span(i));
    const auto i1 = range_of(params.operands[1], at.b, Span(j));
    return i0 == i1;
  }
  static constexpr bool kNarrows = false;
  // Takes keys away that no row of `i` keeps.
  template <class Params>
  ATTNJIT_DEVICE static void narrow(const Params& params, const Place& at, Span i, Span& keys) {
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
