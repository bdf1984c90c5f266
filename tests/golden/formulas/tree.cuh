
#include "attnjit/score/formula_ranges.cuh"
#include "attnjit/score/formula_reads.cuh"

namespace attnjit::kernel {
namespace formula {

// i0[b, j] <= i0[b, i] && i0[b, i] < i1[b, j]
struct KeepFormula {
  static constexpr int kOperands = 2;
  static constexpr bool kUsesHead = false;

  struct Head {};
  struct Row {
    int i0_1;
  };
  struct Key {
    int i0;
    int i1;
  };

  template <class Params>
  ATTNJIT_DEVICE static Head head(const Params& params, const Place& at) {
    return {};
  }
  template <class Params>
  ATTNJIT_DEVICE static Row row(const Params& params, const Place& at, const Head& head, int i) {
    const auto i0_1 = read_int32(params.operands[0], natural(at.b), natural(i));
    return {i0_1};
  }
  template <class Params>
  ATTNJIT_DEVICE static Key key(const Params& params, const Place& at, const Head& head, int j) {
    const auto i0 = read_int32(params.operands[0], natural(at.b), natural(j));
    const auto i1 = read_int32(params.operands[1], natural(at.b), natural(j));
    return {i0, i1};
  }
  template <class Params>
  ATTNJIT_DEVICE static bool keeps(const Params& params, const Place& at, const Head& head,
      const Row& row, const Key& key, int i, int j) {
    return (key.i0 <= row.i0_1) & (row.i0_1 < key.i1);
  }
  // Whether anything is known of a tile without a look at its elements.
  static constexpr bool kKnowsTiles = false;
  static constexpr bool kNarrows = false;
  // Takes keys away that no row of `i` keeps.
  template <class Params>
  ATTNJIT_DEVICE static void narrow(const Params& params, const Place& at, Span i, Span& keys) {
  }
  static constexpr bool kPicksKeys = false;
  // Whether any row may keep key `j`.
  template <class Params>
  ATTNJIT_DEVICE static bool reads_key(const Params& params, const Place& at, int j) {
    bool keeps = true;
    return keeps;
  }
};

}  // namespace formula

using formula::KeepFormula;
using KeepParams = ExpressionParams<KeepFormula::kOperands>;

}  // namespace attnjit::kernel
