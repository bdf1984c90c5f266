
#include "attnjit/score/formula_reads.cuh"

namespace attnjit::kernel {
namespace formula {

// s * sigmoid(f0[h] * s) + log(1.0 - s)
struct ScoreFormula {
  static constexpr int kOperands = 1;
  static constexpr bool kUsesHead = true;
  struct Head {};
  struct Row {
    float f0;
  };
  struct Key {};

  template <class Params>
  ATTNJIT_DEVICE static Head head(const Params& params, const Place& at) {
    return {};
  }
  template <class Params>
  ATTNJIT_DEVICE static Row row(const Params& params, const Place& at, const Head& head, int i, Along along) {
    const auto f0 = read_fp32(params.operands[0], natural(at.h));
    return {f0};
  }
  template <class Params>
  ATTNJIT_DEVICE static Key key(const Params& params, const Place& at, const Head& head, int j, Along along) {
    return {};
  }
  template <class Params>
  ATTNJIT_DEVICE static float score(const Params& params, const Place& at, const Head& head,
      const Row& row, const Key& key, int i, int j, float s) {
    const auto v0 = sigmoid(row.f0 * s);
    const auto v1 = 1.0f - s;
    return fmaf(s, v0, log(v1));
  }
  template <class Params>
  ATTNJIT_DEVICE static float differentiate(const Params& params, const Place& at, const Head& head,
      const Row& row, const Key& key, int i, int j, float s, float& score) {
    const auto v0 = sigmoid(row.f0 * s);
    const auto v1 = 1.0f - s;
    score = fmaf(s, v0, log(v1));
    return finite(fmaf(row.f0 * (v0 * (1.0f - v0)), s, v0) + ptx::divide(-1.0f, v1));
  }
};

}  // namespace formula

using formula::ScoreFormula;
using ScoreParams = ExpressionParams<ScoreFormula::kOperands>;

}  // namespace attnjit::kernel
