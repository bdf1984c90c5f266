#pragma once
#include "attnjit/backward/mma/scores.cuh"
#include "attnjit/score/bias_grad.cuh"

namespace attnjit::kernel {

// A walk over the (batch element, head) pairs that share a plane of dbias, whose dS a thread block
// adds up in registers. Where several thread blocks have a plane, each takes a share of the pairs
// and writes sums of its own, which backward/bias_sum.cuh adds up in a fixed order. For planes of
// the gradient of an operand, a policy of operand_site.cuh is in the place of dbias's.
template <BackwardMmaConfig kConfig, class Features, class BiasGrad,
          ScoreShape kShape = kConfig.scores()>
struct PlaneSharers : GradientScores<kConfig, Features, kShape> {
  using Base = GradientScores<kConfig, Features, kShape>;
  using Base::block, Base::params;
  using typename Base::Tile;

  const BiasPlanes& planes;
  BiasGrad bias_grad;
  int batch_plane;                         // over the batch: of dbias, or of sums
  int first_batch, first_head, num_heads;  // that share the plane
  int next_sharer, end_sharer;
  Tile sum[Base::kSpans];

  ATTNJIT_DEVICE PlaneSharers(const BackwardParams& p, const BiasPlanes& b, const Features& f,
                              const BiasGrad& g)
      : Base(p, f), planes(b), bias_grad(g) {}

  // Turns to plane `plane` of dbias, or of sums, and to the thread block's share of its pairs.
  ATTNJIT_DEVICE void enter_plane(int plane) {
    num_heads = params.num_heads_q / planes.heads;
    const int num_batches = params.batch / planes.batches, shares = bias_grad.params.shares;
    batch_plane = plane / planes.heads;
    first_batch = bias_grad.first_sharer(batch_plane / shares, num_batches);
    first_head = plane % planes.heads * num_heads;
    const int sharers = num_batches * num_heads, share = (sharers + shares - 1) / shares;
    next_sharer = batch_plane % shares * share;
    end_sharer = next_sharer + share < sharers ? next_sharer + share : sharers;
  }
  ATTNJIT_DEVICE int batch_of(int sharer) const {
    return first_batch + bias_grad.sharer_offset(sharer / num_heads);
  }
  ATTNJIT_DEVICE int head_of_sharer(int sharer) const { return first_head + sharer % num_heads; }

  ATTNJIT_DEVICE void clear_sums() {
#pragma unroll
    for (int span = 0; span < Base::kSpans; ++span) sum[span] = 0.0f;
  }
  // Writes the sums of the tile of keys `kv_tile` and of the rows at hand.
  ATTNJIT_DEVICE void write_sums(int kv_tile) {
    block.operand_queries = planes.queries;
    block.operand_keys = planes.keys;
    if (bias_grad.params.shares > 1) {
      store(BiasGradStore<DType::kFloat32, true>(bias_grad.params), kv_tile);
    } else {
      store(bias_grad, kv_tile);
    }
  }
  // The same of planes of one tile, for the gradient of an operand.
  ATTNJIT_DEVICE void write_operand_sums() {
    const int shares = bias_grad.params.shares;
    bias_grad.write(*this, sum, batch_plane % shares, batch_plane / shares, first_head / num_heads);
  }

 private:
  template <class Target>
  ATTNJIT_DEVICE void store(Target target, int kv_tile) {
    target.enter_plane(batch_plane, first_head);
#pragma unroll
    for (int span = 0; span < Base::kSpans; ++span) target.add(*this, sum[span], kv_tile, span);
  }
};

}  // namespace attnjit::kernel
