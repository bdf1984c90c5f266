
#include "attnjit/score/formula_reads.cuh"

namespace attnjit::kernel {
namespace formula {

// s - f0[h] * float(abs(i + off - j))
struct ScoreFormula {
  static constexpr int kOperands = 1;
  static constexpr bool kUsesHead = true;
  // Whether it may be infinite or NaN.
  static constexpr bool kAddsAny = false;
  // Whether batch elements have addends of their own.
  static constexpr bool kUsesBatch = true;
  struct Head {
    float f0;
  };
  struct Row {
    int v0;
  };
  struct Key {};

  template <class Params>
  ATTNJIT_DEVICE static Head head(const Params& params, const Place& at) {
    const auto f0 = read_fp32(params.operands[0], natural(at.h));
    return {f0};
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
  ATTNJIT_DEVICE static float addend(const Params& params, const Place& at, const Head& head,
      const Row& row, const Key& key, int i, int j) {
    return -(head.f0 * to_float(magnitude(row.v0 - j)));
  }
};

}  // namespace formula

using formula::ScoreFormula;
using ScoreParams = ExpressionParams<ScoreFormula::kOperands>;

}  // namespace attnjit::kernel
