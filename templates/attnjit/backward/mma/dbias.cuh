#pragma once
#include "attnjit/backward/mma/scores.cuh"
#include "attnjit/score/bias_grad.cuh"

// The kernel of dbias alone, for a bias that is shared by batch elements or heads: dS of
// backward/mma/scores.cuh, summed over them in registers. Nothing is added up by several thread
// blocks, so its results are the same bits every time.
//
// One thread block computes a tile of one plane of dbias and walks over the batch elements and
// heads that share the plane. Where tiles are few, each has several thread blocks: they share the
// batch elements and heads out and write sums of their own, which backward/bias_sum.cuh adds up.
// Shared memory: num_stages times [ Q | dO | K | V | lse and delta ].
namespace attnjit::kernel {

template <BackwardMmaConfig kConfig, class Features, class BiasGrad>
struct BackwardDbiasMma : GradientScores<kConfig, Features> {
  using Base = GradientScores<kConfig, Features>;
  using Base::block, Base::features, Base::params;
  using typename Base::DoutTile, typename Base::KTile, typename Base::QTile, typename Base::Tile,
      typename Base::VTile;

  // A (batch element, head) that shares the plane and has scores in the tile; none after the last.
  struct Job {
    int batch, head;
    TileUse use;  // what the mask says
    ATTNJIT_DEVICE bool exists() const { return use != TileUse::kSkip; }
  };

  const BiasPlanes& planes;
  BiasGrad bias_grad;
  int q_tile_index, kv_tile;
  int batch_plane;                         // over the batch: of dbias, or of sums
  int first_batch, first_head, num_heads;  // that share the plane
  int next_sharer, end_sharer;
  Tile sum[Base::kSpans];

  ATTNJIT_DEVICE BackwardDbiasMma(const BackwardParams& p, const BiasPlanes& b, const Features& f,
                                  const BiasGrad& g)
      : Base(p, f), planes(b), bias_grad(g) {}

  ATTNJIT_DEVICE uint32 stage(int slot) const {
    return ptx::shared_base() + slot * (kConfig.dbias_shared_bytes() / kConfig.num_stages);
  }
  ATTNJIT_DEVICE QTile q_tile(int slot) const { return {stage(slot)}; }
  ATTNJIT_DEVICE DoutTile dout_tile(int slot) const { return {stage(slot) + kConfig.q_bytes()}; }
  ATTNJIT_DEVICE KTile k_tile(int slot) const {
    return {stage(slot) + kConfig.q_bytes() + kConfig.dout_bytes()};
  }
  ATTNJIT_DEVICE VTile v_tile(int slot) const {
    return {stage(slot) + kConfig.q_bytes() + kConfig.dout_bytes() + kConfig.k_bytes()};
  }
  ATTNJIT_DEVICE uint32 rows(int slot) const { return stage(slot + 1) - kConfig.rows_bytes(); }

  ATTNJIT_DEVICE void locate() {
    kv_tile = static_cast<int>(ptx::block_index() % params.num_kv_tiles);
    const uint32 rest = ptx::block_index() / params.num_kv_tiles;
    q_tile_index = static_cast<int>(rest % params.num_q_tiles);
    const int plane = static_cast<int>(rest / params.num_q_tiles);
    num_heads = params.num_heads_q / planes.heads;
    const int num_batches = params.batch / planes.batches, shares = bias_grad.params.shares;
    batch_plane = plane / planes.heads;
    first_batch = bias_grad.first_sharer(batch_plane / shares, num_batches);
    first_head = plane % planes.heads * num_heads;
    const int sharers = num_batches * num_heads, share = (sharers + shares - 1) / shares;
    next_sharer = batch_plane % shares * share;
    end_sharer = next_sharer + share < sharers ? next_sharer + share : sharers;
  }

  // Also turns to the batch element and head of the job, whose tiles are loaded next.
  ATTNJIT_DEVICE Job next_job() {
    while (next_sharer < end_sharer) {
      const int sharer = next_sharer++;
      const int batch = first_batch + bias_grad.sharer_offset(sharer / num_heads);
      const int head = first_head + sharer % num_heads;
      this->enter_batch(batch, head);
      if (!this->load_live(head, q_tile_index).any()) continue;
      const TileUse use = features.tile_use(batch, head, q_tile_index, kv_tile);
      const KeyRange seen = this->keys_of(q_tile_index);
      const int first_key = kv_tile * kConfig.block_kv;
      if (use != TileUse::kSkip && seen.begin < first_key + kConfig.block_kv &&
          seen.end > first_key) {
        return {batch, head, use};
      }
    }
    return {0, 0, TileUse::kSkip};
  }

  ATTNJIT_DEVICE void load(int slot, const Job& job) {
    if (!job.exists()) return;
    const LiveRows live = this->load_live(job.head, q_tile_index);
    this->template load_queries<kConfig.head_dim>(q_tile(slot), params.q, params.q_strides,
                                                  job.head, q_tile_index, live);
    this->template load_queries<kConfig.head_dim_v>(
        dout_tile(slot), params.dout, params.dout_strides, job.head, q_tile_index, live);
    this->load_rows(rows(slot), job.head, q_tile_index);
    const KeyRange keys = this->keys_of_head();
    this->template load_keys<kConfig.head_dim>(k_tile(slot), params.k, params.k_strides, kv_tile,
                                               keys);
    this->template load_keys<kConfig.head_dim_v>(v_tile(slot), params.v, params.v_strides, kv_tile,
                                                 keys);
  }

  ATTNJIT_DEVICE void add_sharer(const Job& job, int slot) {
    this->enter_batch(job.batch, job.head);
    this->enter_tile(q_tile_index);
    typename Base::RowNumbers lse, delta;
    this->read_lse(lse, rows(slot));
    this->read_delta(delta, rows(slot));
#pragma unroll
    for (int span = 0; span < Base::kSpans; ++span) {
      Tile p, ds;
      typename Base::Slopes slopes;
      this->scores(p, slopes, q_tile(slot), k_tile(slot), kv_tile, span, job.use);
      this->exponentiate(p, lse);
      this->score_gradients(ds, p, delta, dout_tile(slot), v_tile(slot), span);
      sum[span] += ds;
    }
  }

  ATTNJIT_DEVICE void run() {
    locate();
#pragma unroll
    for (int span = 0; span < Base::kSpans; ++span) {
      sum[span] = 0.0f;
    }
    this->walk([&] { return next_job(); }, [&](int slot, const Job& job) { load(slot, job); },
               [&](const Job& job, int slot) {
                 if (this->has_scores()) add_sharer(job, slot);
               });
    this->enter_batch(first_batch, first_head);
    this->enter_tile(q_tile_index);
    block.operand_queries = planes.queries;
    block.operand_keys = planes.keys;
    if (bias_grad.params.shares > 1) {
      store(BiasGradStore<DType::kFloat32, true>(bias_grad.params));
    } else {
      store(bias_grad);
    }
  }

 private:
  template <class Target>
  ATTNJIT_DEVICE void store(Target target) {
    target.enter_plane(batch_plane, first_head);
#pragma unroll
    for (int span = 0; span < Base::kSpans; ++span) target.add(*this, sum[span], kv_tile, span);
  }
};

template <BackwardMmaConfig kConfig, class BiasGrad, class... Features>
ATTNJIT_DEVICE void backward_dbias_mma(const BackwardParams& params, const BiasPlanes& planes,
                                       const BiasGrad& bias_grad, Features... features) {
  using Set = GradientFeatures<Features...>;
  BackwardDbiasMma<kConfig, Set, BiasGrad>(params, planes, Set(features...), bias_grad).run();
}

}  // namespace attnjit::kernel
