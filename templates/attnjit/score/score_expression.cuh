#pragma once
#include "attnjit/score/feature.cuh"
#include "attnjit/score/formula_pairs.cuh"

namespace attnjit::kernel {

// Puts what a formula makes of a scaled score in its place. The formula is rendered from a score
// expression as a struct (codegen/score_code.cpp).
template <ScoreShape kShape, class Formula>
struct ScoreExpression : Feature {
  static constexpr bool kTransforms = true, kPerHead = Formula::kUsesHead;
  using Params = ExpressionParams<Formula::kOperands>;

  const Params& params;
  formula::Place at;

  ATTNJIT_DEVICE explicit ScoreExpression(const Params& p) : params(p), at{} {}

  ATTNJIT_DEVICE void begin(const Block& block) { at = formula::place_of<kShape>(params, block); }
  template <class S>
  ATTNJIT_DEVICE void transform(const Block& block, S& scores, int first_key) {
    const formula::Pairs<kShape, Formula, Params> pairs(params, block, at, first_key);
    pairs.for_each([&](const auto& row, const auto& key, int, int, int m, int n, int e) {
      float& score = scores[m][n][e];
      score =
          Formula::score(params, row.at, pairs.head, row.values, key.values, row.i, key.j, score);
    });
  }
  template <class S>
  ATTNJIT_DEVICE void differentiate(const Block& block, S& scores, S& slopes, int first_key) {
    const formula::Pairs<kShape, Formula, Params> pairs(params, block, at, first_key);
    pairs.for_each([&](const auto& row, const auto& key, int, int, int m, int n, int e) {
      float& score = scores[m][n][e];
      slopes[m][n][e] *= Formula::differentiate(params, row.at, pairs.head, row.values, key.values,
                                                row.i, key.j, score, score);
    });
  }
};

}  // namespace attnjit::kernel
