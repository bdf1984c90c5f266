
#include "attnjit/score/formula_ranges.cuh"
#include "attnjit/score/formula_reads.cuh"

namespace attnjit::kernel {
namespace formula {

// b0[b, h, i // 128, j // 64] && j <= i || b1[b, h, i // 128, j // 64]
struct KeepFormula {
  static constexpr int kOperands = 2;
  static constexpr bool kUsesHead = true;

  struct Head {};
  struct Row {
    int v0;
  };
  struct Key {
    int v1;
  };

  template <class Params>
  ATTNJIT_DEVICE static Head head(const Params& params, const Place& at) {
    return {};
  }
  template <class Params>
  ATTNJIT_DEVICE static Row row(const Params& params, const Place& at, const Head& head, int i, Along along) {
    const auto v0 = block_of<7>(along);
    return {v0};
  }
  template <class Params>
  ATTNJIT_DEVICE static Key key(const Params& params, const Place& at, const Head& head, int j, Along along) {
    const auto v1 = block_of<6>(along);
    return {v1};
  }
  template <class Params>
  ATTNJIT_DEVICE static bool keeps(const Params& params, const Place& at, const Head& head,
      const Row& row, const Key& key, int i, int j) {
    const auto b0 = read_bool(params.operands[0], natural(at.b), natural(at.h), natural(row.v0), natural(key.v1));
    const auto b1 = read_bool(params.operands[1], natural(at.b), natural(at.h), natural(row.v0), natural(key.v1));
    return (b0 & (j <= i)) | b1;
  }
  // Whether anything is known of a tile without a look at its elements.
  static constexpr bool kKnowsTiles = true;
  // Its truth over rows `i` and keys `j`.
  template <class Params>
  ATTNJIT_DEVICE static Truth tile(const Params& params, const Place& at, Span h, Span i, Span j) {
    const auto v0 = floor_quotient(i, 128);
    const auto v1 = floor_quotient(j, 64);
    const auto b0 = truth_at(params.operands[0], at.b, at.h, Span(v0), Span(v1));
    const auto b1 = truth_at(params.operands[1], at.b, at.h, Span(v0), Span(v1));
    return (b0 & (j <= i)) | b1;
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
