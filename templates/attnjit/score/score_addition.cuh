#pragma once
#include "attnjit/score/feature.cuh"
#include "attnjit/score/formula_pairs.cuh"

namespace attnjit::kernel {

// Adds what a score expression adds to the scaled score, where that is all that it does: gradients
// of such scores have no slopes.
template <ScoreShape kShape, class Formula>
struct ScoreAddition : Feature {
  static constexpr bool kAdds = true, kPerHead = Formula::kUsesHead;
  static constexpr bool kAddsAny = Formula::kAddsAny;
  static constexpr ScoreShape kAddendScores = kShape;
  static constexpr bool kIsShared = !Formula::kUsesBatch;  // by the batch elements of a head
  using Params = ExpressionParams<Formula::kOperands>;
  using Pairs = formula::Pairs<kShape, Formula, Params>;

  const Params& params;
  formula::Place at;
  Block tile;     // of begin_add()
  int first_key;  // the same

  ATTNJIT_DEVICE explicit ScoreAddition(const Params& p) : params(p), at{}, tile{}, first_key(0) {}

  ATTNJIT_DEVICE void begin(const Block& block) { at = formula::place_of<kShape>(params, block); }
  ATTNJIT_DEVICE void begin_add(const Block& block, int key) {
    tile = block;
    first_key = key;
  }
  ATTNJIT_DEVICE float added(float score, float scale, int line, int distance) const {
    const Pairs pairs(params, tile, at, first_key);
    const auto row = pairs.row(line);
    const auto key = pairs.key(distance);
    return fmaf(score, scale, addend(pairs, row, key));
  }
  template <class S>
  ATTNJIT_DEVICE void add(const Block& block, S& scores, float scale, int key) {
    const Pairs pairs(params, block, at, key);
    pairs.for_each([&](const auto& row, const auto& of_key, int, int, int m, int n, int e) {
      float& score = scores[m][n][e];
      score = fmaf(score, scale, addend(pairs, row, of_key));
    });
  }

 private:
  template <class Row, class Key>
  ATTNJIT_DEVICE float addend(const Pairs& pairs, const Row& row, const Key& key) const {
    return Formula::addend(params, row.at, pairs.head, row.values, key.values, row.i, key.j);
  }
};

}  // namespace attnjit::kernel
