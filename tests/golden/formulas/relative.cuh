
#include "attnjit/score/formula_reads.cuh"

namespace attnjit::kernel {
namespace formula {

// s + f0[h, clamp(j - i, -128, 128) + 128]
struct ScoreFormula {
  static constexpr int kOperands = 1;
  static constexpr bool kUsesHead = true;
  // Whether it may be infinite or NaN.
  static constexpr bool kAddsAny = false;
  // Whether batch elements have addends of their own.
  static constexpr bool kUsesBatch = false;
  struct Head {};
  struct Row {};
  struct Key {};

  template <class Params>
  ATTNJIT_DEVICE static Head head(const Params& params, const Place& at) {
    return {};
  }
  template <class Params>
  ATTNJIT_DEVICE static Row row(const Params& params, const Place& at, const Head& head, int i, Along along) {
    return {};
  }
  template <class Params>
  ATTNJIT_DEVICE static Key key(const Params& params, const Place& at, const Head& head, int j, Along along) {
    return {};
  }
  template <class Params>
  ATTNJIT_DEVICE static float addend(const Params& params, const Place& at, const Head& head,
      const Row& row, const Key& key, int i, int j) {
    const auto f0 = read_fp32(params.operands[0], natural(at.h), natural(clamped(j - i, -128, 128) + 128));
    return f0;
  }
};

}  // namespace formula

using formula::ScoreFormula;
using ScoreParams = ExpressionParams<ScoreFormula::kOperands>;

}  // namespace attnjit::kernel
