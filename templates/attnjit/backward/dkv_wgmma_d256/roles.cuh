#pragma once
#include "attnjit/backward/dkv_wgmma_d256/product.cuh"
#include "attnjit/ptx/math.cuh"
#include "attnjit/score/kept_queries.cuh"
#include "attnjit/score/lse_difference.cuh"
#include "attnjit/score/score_weights.cuh"

// The two warpgroups of the Hopper backward for head_dim above 128 that multiply.
namespace attnjit::kernel {

// Whether the rounding errors of P are handed on with it.
template <DkvWgmmaD256Config kConfig, class Features>
inline constexpr bool hands_residuals = kConfig.keeps_residuals() && !Features::kTransforms;

// Computes P and dv, and hands rounded P to the other warpgroup: times the slopes of its scores, if
// there are slopes; otherwise with its rounding errors, if there is room.
template <DkvWgmmaD256Config kConfig, class Features>
struct DvWarpgroup
    : DkvD256Product<kConfig, Features, Stream::kQueries, DvWarpgroup<kConfig, Features>> {
  using Base = DkvD256Product<kConfig, Features, Stream::kQueries, DvWarpgroup>;
  using Base::Base;
  using Base::block, Base::features, Base::kGroups, Base::kv_tile, Base::lane, Base::operand,
      Base::params, Base::scores, Base::shared;
  using typename Base::Shared;

  // Moves to a job and starts to load its operands.
  ATTNJIT_DEVICE void begin(const BackwardJob& job, uint32 stage) {
    if constexpr (Features::kPerHead) this->enter_head(job.head);
    this->set_rows(block, job.tile);
    block.thread_row = block.first_row + kConfig.scores().lane_row(lane);
    features.receive_tile(shared.bias(stage));
    features.fetch(block, kv_tile * kConfig.block_kv,
                   job.masks ? TileUse::kMasked : TileUse::kPlain);
  }
  ATTNJIT_DEVICE void compute(const BackwardJob& job, uint32 stage) {
    const int first_key = kv_tile * kConfig.block_kv;
    Weights weights;
    if constexpr (kConfig.scale_first) {
      const float scale = weights.transform(features, block, scores, params.score_scale, first_key);
      features.add(block, scores, scale, first_key);
    }
    if (job.masks) {
      features.template drop<KeptQueries<kConfig.scores()>>(block, scores, first_key);
    }
    exponentiate(shared.rows(Stream::kQueries, stage), weights);
#pragma unroll
    for (int n = 0; n < kGroups; n += 2) {
      const auto& a = weights.rounded(operand[n], n);
      const auto& b = weights.rounded(operand[n + 1], n + 1);
      ptx::store_shared_16(Shared::of_thread(shared.p(stage), n / 2), {a[0], a[1], b[0], b[1]});
    }
    if constexpr (hands_residuals<kConfig, Features>) {
#pragma unroll
      for (int n = 0; n < kGroups; n += 4) {
        const auto& r = weights.residuals;
        ptx::store_shared_16(Shared::of_thread(shared.residuals(stage), n / 4),
                             {r[n].word, r[n + 1].word, r[n + 2].word, r[n + 3].word});
      }
    }
    ptx::named_barrier_arrive(Shared::p_full(stage), Shared::kPThreads);
  }

 private:
  using Weights = ScoreWeights<Features, kConfig.dtype, kGroups, false>;

  // operand = P, times probability_scale(), and its weights. A bias may be so large that lse has
  // few digits left after the point: with a bias, lse is subtracted before the scores are scaled.
  ATTNJIT_DEVICE void exponentiate(uint32 lse, Weights& weights) {
    constexpr float kLogScale = kConfig.dtype == DType::kFloat16 ? 14.0f : 0.0f;
    static_assert(kConfig.probability_scale() == (kLogScale == 0.0f ? 1.0f : 16384.0f));
#pragma unroll
    for (int n = 0; n < kGroups; ++n) {
      const ptx::Vector8 of_queries = ptx::load_shared_8(lse + 4 * (8 * n + 2 * (lane & 3)));
      float p[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float lse_of_query = ptx::as_float(of_queries.word[e & 1]);
        const float score = scores[0][n][e];
        if constexpr (kConfig.scale_first) {
          p[e] =
              ptx::exp2_approx(fmaf(difference_from_lse(score, lse_of_query), kLog2E, kLogScale));
        } else {
          const float origin = fmaf(lse_of_query, kLog2E, -kLogScale);
          p[e] = ptx::exp2_approx(fmaf(score, params.exponent_scale, -origin));
        }
      }
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        operand[n][h] = ptx::pack<kConfig.dtype>(p[2 * h], p[2 * h + 1]);
      }
      weights.set(n, p);
    }
  }
};

// Computes dS and dk from the P of the other warpgroup.
template <DkvWgmmaD256Config kConfig, class Features, class BiasGrad>
struct DkWarpgroup : DkvD256Product<kConfig, Features, Stream::kOutputs,
                                    DkWarpgroup<kConfig, Features, BiasGrad>> {
  using Base = DkvD256Product<kConfig, Features, Stream::kOutputs, DkWarpgroup>;
  using Base::block, Base::kGroups, Base::kv_tile, Base::lane, Base::operand, Base::scores,
      Base::shared, Base::warp_row;
  using typename Base::Shared;

  BiasGrad bias_grad;

  ATTNJIT_DEVICE DkWarpgroup(const DkvWgmmaParams& p, const Features& f, const BiasGrad& g)
      : Base(p, f), bias_grad(g) {}

  ATTNJIT_DEVICE void begin(const BackwardJob&, uint32) {}
  // The scores are dP here.
  ATTNJIT_DEVICE void compute(const BackwardJob& job, uint32 stage) {
    constexpr bool kRestores = hands_residuals<kConfig, Features>;
    using Dropped = Residuals<kConfig.dtype>;
    constexpr float kInverse =
        1.0f / (kConfig.probability_scale() * (kRestores ? Dropped::kFactor : 1.0f));
    bias_grad.begin_tile(block, job.head, kv_tile * kConfig.block_kv + warp_row);
    ptx::named_barrier_sync(Shared::p_full(stage), Shared::kPThreads);
    const uint32 delta = shared.rows(Stream::kOutputs, stage);
    [[maybe_unused]] ptx::Vector16 residuals;  // of four groups
#pragma unroll
    for (int n = 0; n < kGroups; n += 2) {
      const ptx::Vector16 p = ptx::load_shared_16(Shared::of_thread(shared.p(stage), n / 2));
      if (kRestores && n % 4 == 0) {
        residuals = ptx::load_shared_16(Shared::of_thread(shared.residuals(stage), n / 4));
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const ptx::Vector8 of_queries =
            ptx::load_shared_8(delta + 4 * (8 * (n + i) + 2 * (lane & 3)));
        const uint32 pairs[2] = {p.word[2 * i], p.word[2 * i + 1]};
        const auto weight = [&](int e) {
          if constexpr (kRestores) {
            return Dropped{residuals.word[(n + i) % 4]}.restore(pairs, e, 0);
          } else {
            return element_of<kConfig.dtype>(pairs, e);
          }
        };
        float ds[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          ds[e] = (scores[0][n + i][e] - ptx::as_float(of_queries.word[e & 1])) * weight(e);
          if constexpr (kInverse != 1.0f) ds[e] *= kInverse;
        }
        bias_grad.add(ds);
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          operand[n + i][h] = ptx::pack<kConfig.dtype>(ds[2 * h], ds[2 * h + 1]);
        }
      }
    }
    bias_grad.end_tile();
  }
};

}  // namespace attnjit::kernel
