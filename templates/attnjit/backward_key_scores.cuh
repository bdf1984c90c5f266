#pragma once
#include "attnjit/backward_key_walk.cuh"
#include "attnjit/backward_wgmma_shared.cuh"
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/matrix.cuh"
#include "attnjit/ptx/store_matrix.cuh"
#include "attnjit/score/packed_slopes.cuh"
#include "attnjit/tile/fragments.cuh"
#include "attnjit/tile/team.cuh"

namespace attnjit::kernel {

// Between the products of a warpgroup of the Hopper backward that has 64 of the block's keys: its
// scores become P and dS, in registers, and dS goes to shared memory for the warpgroup of dq.
template <BackwardWgmmaConfig kConfig, class Features, ScoreShape kShape>
struct BackwardKeyScores : KeyTileWalk<BackwardBlock<kShape, Features, WarpTeam>> {
  using Base = KeyTileWalk<BackwardBlock<kShape, Features, WarpTeam>>;
  using Base::block, Base::features, Base::kv_tile, Base::params;
  static constexpr DType kDType = kConfig.dtype;
  static constexpr int kGroups = kConfig.block_q / 8;  // of 8 queries
  using Shared = BackwardShared<kConfig>;
  using Scores = Fragments<1, kGroups>;
  using Operand = uint32[kGroups][2];  // scores, rounded, as the operand of a product
  using Slopes = SlopesOf<Features, kDType, kGroups>;

  Shared shared;
  const int warpgroup;  // of those that have keys
  const int warp_row;   // of the warp's 16 keys in the tile
  const int lane = ptx::lane_index();

  ATTNJIT_DEVICE BackwardKeyScores(const BackwardParams& p, const Features& f, int group)
      : Base(p, f), warpgroup(group), warp_row(64 * group + 16 * (ptx::warp_index() & 3)) {}

  // P, times probability_scale(), and what dS takes in its place where scores are changed. Neither
  // this nor the next function changes the scores in place: ptxas would take other registers for dP
  // then, and has none.
  ATTNJIT_DEVICE void exponentiate(const Scores& scores, bool masks, uint32 stage, Operand& p,
                                   Slopes& slopes) {
    if constexpr (kConfig.scale_first) {
      const int first_key = kv_tile * kConfig.block_kv;
      Scores sums = scores;
      sums *= params.score_scale;
      slopes.transform(features, sums);
      features.add(block, sums, first_key);
      if (Features::kTransforms && masks) features.mask(block, sums, first_key);
      take_off_lse(sums, shared.lse(stage));
      round_probabilities(sums, p, slopes);
    } else {
      round_probabilities(scores, p, slopes);
    }
  }
  // A score that is dropped, -inf, stays so whatever was added to it, and dead rows, whose lse is
  // +inf, have no others. Where a kept score is NaN, so is delta.
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
  ATTNJIT_DEVICE void round_probabilities(const Scores& scores, Operand& p, Slopes& slopes) const {
    constexpr float kLogScale = kDType == DType::kFloat16 ? 14.0f : 0.0f;
    static_assert(kConfig.probability_scale() == (kDType == DType::kFloat16 ? 16384.0f : 1.0f));
    const auto of = [&](float score) {
      return ptx::exp2_approx(score * params.exponent_scale + kLogScale);
    };
#pragma unroll
    for (int n = 0; n < kGroups; ++n) {
      const float(&group)[4] = scores[0][n];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float low = of(group[2 * h]), high = of(group[2 * h + 1]);
        p[n][h] = ptx::pack<kDType>(low, high);
        slopes.multiply(n, h, low, high);
      }
    }
  }
  // dS = P dP with P as dv has it, which saves the registers of another, or with other weights.
  template <class BiasGrad>
  ATTNJIT_DEVICE void score_gradients(const Scores& dp, const Operand& p, const Operand& weights,
                                      BiasGrad& bias_grad, Operand& ds) const {
    constexpr float kInverse = 1.0f / kConfig.probability_scale();
    struct Products {
      float of[4];
    };
    const auto of = [&](float x, uint32 bits) {
      const float product = x * ptx::widen<kDType>(static_cast<uint16>(bits));
      return kInverse == 1.0f ? product : product * kInverse;
    };
#pragma unroll
    for (int n = 0; n < kGroups; ++n) {
      const float(&group)[4] = dp[0][n];
      const auto times = [&](const uint32(&w)[2]) {
        return Products{{of(group[0], w[0]), of(group[1], w[0] >> 16), of(group[2], w[1]),
                         of(group[3], w[1] >> 16)}};
      };
      bias_grad.add(times(p[n]).of);
      const Products exact = times(weights[n]);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        ds[n][h] = ptx::pack<kDType>(exact.of[2 * h], exact.of[2 * h + 1]);
      }
    }
  }
  // The lane's line of the warp's part of dS, which lies as [query][key].
  ATTNJIT_DEVICE uint32 line_of(uint32 slot) const {
    const uint32 tile = shared.ds(slot) + warpgroup * kConfig.block_q * 128;
    const int query = (lane & 7) + 8 * (lane >> 4);
    const int chunk = 2 * (ptx::warp_index() & 3) + (lane >> 3 & 1);
    return tile + query * 128 + ((chunk ^ (lane & 7)) << 4);
  }
  // Writes the warp's part, 16 queries at a time.
  ATTNJIT_DEVICE void store(const Operand& part, uint32 slot) const {
    const uint32 line = line_of(slot);
#pragma unroll
    for (int i = 0; i < kConfig.block_q / 16; ++i) {
      ptx::store_matrices_transposed(line + i * 16 * 128,
                                     reinterpret_cast<const uint32(&)[4]>(part[2 * i]));
    }
  }
  // Reads it back.
  ATTNJIT_DEVICE void load(Operand& part, uint32 slot) const {
    const uint32 line = line_of(slot);
#pragma unroll
    for (int i = 0; i < kConfig.block_q / 16; ++i) {
      ptx::load_matrices_transposed(reinterpret_cast<uint32(&)[4]>(part[2 * i]),
                                    line + i * 16 * 128);
    }
  }
};

}  // namespace attnjit::kernel
