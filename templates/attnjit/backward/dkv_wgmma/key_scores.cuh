#pragma once
#include "attnjit/backward/dkv_wgmma/shared.cuh"
#include "attnjit/backward/key_walk.cuh"
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/matrix.cuh"
#include "attnjit/ptx/store_matrix.cuh"
#include "attnjit/score/kept_queries.cuh"
#include "attnjit/score/score_weights.cuh"
#include "attnjit/tile/fragments.cuh"
#include "attnjit/tile/slab_products.cuh"
#include "attnjit/tile/team.cuh"

namespace attnjit::kernel {

// The work between the products of a warpgroup of the Hopper backward with 64 of the block's keys:
// scores become P and dS, in registers, and dS goes to shared memory for the warpgroup of dq.
template <DkvWgmmaConfig kConfig, class Features, ScoreShape kShape>
struct BackwardKeyScores : KeyTileWalk<BackwardBlock<kShape, Features, WarpTeam>> {
  using Base = KeyTileWalk<BackwardBlock<kShape, Features, WarpTeam>>;
  using Base::block, Base::features, Base::kv_tile, Base::params;
  static constexpr DType kDType = kConfig.dtype;
  static constexpr int kGroups = kConfig.block_q / 8;  // of 8 queries
  using Shared = BackwardShared<kConfig>;
  using DsTile = typename Shared::DsTile;
  using Scores = Fragments<1, kGroups>;
  using Operand = uint32[kGroups][2];  // scores, rounded, as the operand of a product
  using Weights = ScoreWeights<Features, kDType, kGroups, kConfig.keeps_floats()>;
  // Whether masks come after features that change scores by more than the addition of a number: a
  // dropped score would not stay -inf.
  static constexpr bool kMasksLast =
      Features::kTransforms || Features::kAddsAny || kConfig.any_scale;
  // Whether dropped keys are determined while S is computed.
  static constexpr bool kKeepsEarly = Features::kHasBits && !kMasksLast;
  using Kept = KeptQueries<kShape>;
  struct ScoreGradients {
    float element[4];  // of a group
  };

  Shared shared;
  const int warpgroup;  // of those that have keys
  const int warp_row;   // of the warp's 16 keys in the tile
  const int lane = ptx::lane_index();

  ATTNJIT_DEVICE BackwardKeyScores(const BackwardParams& p, const Features& f, int group)
      : Base(p, f), warpgroup(group), warp_row(64 * group + 16 * (ptx::warp_index() & 3)) {}

  // Computes P, rounded, and the weights of dS, times probability_scale(). This function and the
  // next one do not change the scores in place: ptxas would then use other registers for dP, and
  // has none.
  ATTNJIT_DEVICE void exponentiate(const Scores& scores, bool masks, uint32 stage, Operand& p,
                                   Weights& weights) {
    if constexpr (kConfig.scale_first) {
      const int first_key = kv_tile * kConfig.block_kv;
      Scores sums = scores;
      const float scale = weights.transform(features, block, sums, params.score_scale, first_key);
      features.add(block, sums, scale, first_key);
      if (kMasksLast && masks) features.template drop<Kept>(block, sums, first_key);
      take_off_lse(sums, shared.lse(stage));
      round_probabilities(sums, p, weights);
    } else {
      round_probabilities(scores, p, weights);
    }
  }
  // A dropped score stays -inf whatever is added to it, and in dead rows, whose lse is +inf, all
  // scores are dropped. Where a kept score is NaN, delta is NaN too.
  ATTNJIT_DEVICE void take_off_lse(Scores& scores, uint32 lse) const {
    constexpr float kDropped = -1e30f;
#pragma unroll
    for (int n = 0; n < kGroups; ++n) {
      const ptx::Vector8 of_queries = ptx::load_shared_8(lse + 4 * (8 * n + 2 * (lane & 3)));
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float& score = scores[0][n][e];
        const float difference = score - ptx::as_float(of_queries.word[e & 1]);
        score = difference > kDropped ? difference : kDropped;
      }
    }
  }
  ATTNJIT_DEVICE void round_probabilities(const Scores& scores, Operand& p,
                                          Weights& weights) const {
    constexpr float kLogScale = kDType == DType::kFloat16 ? 14.0f : 0.0f;
    static_assert(kConfig.probability_scale() == (kDType == DType::kFloat16 ? 16384.0f : 1.0f));
    const auto of = [&](float score) {
      return ptx::exp2_approx(fmaf(score, params.exponent_scale, kLogScale));
    };
#pragma unroll
    for (int n = 0; n < kGroups; ++n) {
      const float(&group)[4] = scores[0][n];
      const float exact[4] = {of(group[0]), of(group[1]), of(group[2]), of(group[3])};
#pragma unroll
      for (int h = 0; h < 2; ++h) p[n][h] = ptx::pack<kDType>(exact[2 * h], exact[2 * h + 1]);
      weights.set(n, exact);
    }
  }
  // dS = weights dP. The gradient of a bias is P dP, without slopes; where the weights have slopes
  // it takes P as dv does. `zero` is 0, unknown to the compiler: it makes weights depend on dP,
  // because ptxas would otherwise restore all weights while dP is computed, and has no registers
  // for them.
  template <class BiasGrad>
  ATTNJIT_DEVICE void score_gradients(const Scores& dp, const Operand& p, const Weights& weights,
                                      uint32 zero, BiasGrad& bias_grad, Operand& ds) const {
    constexpr float kInverse = 1.0f / kConfig.probability_scale();
    const uint32 late_zero = zero & ptx::as_bits(dp[0][0][0]);
#pragma unroll
    for (int n = 0; n < kGroups; ++n) {
      const auto times = [&](auto weight_of, float inverse) {
        ScoreGradients of;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          of.element[e] = dp[0][n][e] * weight_of(e);
          if (inverse != 1.0f) of.element[e] *= inverse;
        }
        return of;
      };
      const ScoreGradients of_scores = times(
          [&](int e) { return weights.of(p[n], n, e, late_zero); }, kInverse / Weights::kFactor);
      if constexpr (Features::kTransforms) {
        const auto of_p = [&](int e) { return element_of<kDType>(p[n], e); };
        bias_grad.add(times(of_p, kInverse).element);
      } else {
        bias_grad.add(of_scores.element);
      }
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        ds[n][h] = ptx::pack<kDType>(of_scores.element[2 * h], of_scores.element[2 * h + 1]);
      }
    }
  }
  // The lane's line of the warp's share of dS, which lies as [query][key].
  ATTNJIT_DEVICE uint32 line_of(uint32 slot) const {
    const uint32 slab = shared.ds(slot) + warpgroup * DsTile::kSlabBytes;
    const int query = (lane & 7) + 8 * (lane >> 4);
    const int chunk = 2 * (ptx::warp_index() & 3) + (lane >> 3 & 1);
    return slab + DsTile::rows_on(query) + ((chunk ^ (lane & 7)) << 4);
  }
  // Writes the warp's share, 16 queries at a time.
  ATTNJIT_DEVICE void store(const Operand& ds, uint32 slot) const {
    const uint32 line = line_of(slot);
#pragma unroll
    for (int i = 0; i < kConfig.block_q / 16; ++i) {
      ptx::store_matrices_transposed(line + DsTile::rows_on(16 * i), operand_step(ds, i));
    }
  }
  // Reads it back.
  ATTNJIT_DEVICE void load(Operand& ds, uint32 slot) const {
    const uint32 line = line_of(slot);
#pragma unroll
    for (int i = 0; i < kConfig.block_q / 16; ++i) {
      ptx::load_matrices_transposed(operand_step(ds, i), line + DsTile::rows_on(16 * i));
    }
  }
};

}  // namespace attnjit::kernel
