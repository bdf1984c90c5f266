
#include "attnjit/score/formula_ranges.cuh"
#include "attnjit/score/formula_reads.cuh"

namespace attnjit::kernel {
namespace formula {

// j <= i + off
struct KeepFormula {
  static constexpr int kOperands = 0;
  static constexpr bool kUsesHead = false;

  struct Head {};
  struct Row {
    int v0;
  };
  struct Key {};

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
    return {};
  }
  template <class Params>
  ATTNJIT_DEVICE static bool keeps(const Params& params, const Place& at, const Head& head,
      const Row& row, const Key& key, int i, int j) {
    return j <= row.v0;
  }
  // Whether anything is known of a tile without a look at its elements.
  static constexpr bool kKnowsTiles = true;
  // Its truth over rows `i` and keys `j`.
  template <class Params>
  ATTNJIT_DEVICE static Truth tile(const Params& params, const Place& at, Span h, Span i, Span j) {
    return j <= i + at.off;
  }
  static constexpr bool kNarrows = true;
  // Takes keys away that no row of `i` keeps.
  template <class Params>
  ATTNJIT_DEVICE static void narrow(const Params& params, const Place& at, Span i, Span& keys) {
    {
      keep_to(keys, i + at.off);
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
