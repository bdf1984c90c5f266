
#include "attnjit/score/formula_reads.cuh"

namespace attnjit::kernel {
namespace formula {

// 50.0 * tanh(s / 50.0)
struct ScoreFormula {
  static constexpr int kOperands = 0;
  static constexpr bool kUsesHead = false;
  struct Head {
    float v1;
  };
  struct Row {};
  struct Key {};

  template <class Params>
  ATTNJIT_DEVICE static Head head(const Params& params, const Place& at) {
    const auto v1 = 1.0f * 0.02f;
    return {v1};
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
  ATTNJIT_DEVICE static float score(const Params& params, const Place& at, const Head& head,
      const Row& row, const Key& key, int i, int j, float s) {
    const auto v0 = tanh(s * 0.02f);
    return 50.0f * v0;
  }
  template <class Params>
  ATTNJIT_DEVICE static float differentiate(const Params& params, const Place& at, const Head& head,
      const Row& row, const Key& key, int i, int j, float s, float& score) {
    const auto v0 = tanh(s * 0.02f);
    score = 50.0f * v0;
    return head.v1 * fmaf(-v0, v0, 1.0f) * 50.0f;
  }
};

}  // namespace formula

using formula::ScoreFormula;
using ScoreParams = ExpressionParams<ScoreFormula::kOperands>;

}  // namespace attnjit::kernel
