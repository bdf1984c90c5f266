#pragma once
#include "attnjit/backward/mma/sharers.cuh"

// The kernel of dbias alone, for a bias that is shared by batch elements or heads: dS of
// backward/mma/scores.cuh, summed over them in registers. No sum is shared by thread blocks, so its
// results are the same bits every time.
//
// One thread block computes a tile of one plane of dbias and walks over the batch elements and
// heads that share the plane. Where tiles are few, each has several thread blocks: each takes a
// share of the batch elements and heads and writes its own sums, which backward/bias_sum.cuh adds
// up. Shared memory: num_stages times [ Q | dO | K | V | lse and delta ].
namespace attnjit::kernel {

template <BackwardMmaConfig kConfig, class Features, class BiasGrad>
struct BackwardDbiasMma : PlaneSharers<kConfig, Features, BiasGrad> {
  static_assert(why_invalid(kConfig) == nullptr, "why_invalid(config) in backward/mma/config.h");
  using Base = PlaneSharers<kConfig, Features, BiasGrad>;
  using Base::end_sharer, Base::features, Base::next_sharer, Base::params, Base::sum;
  using typename Base::DoutTile, typename Base::KTile, typename Base::QTile, typename Base::Tile,
      typename Base::VTile;

  // A (batch element, head) that shares the plane and has scores in the tile; empty after the last.
  struct Job {
    int batch, head;
    TileUse use;  // by the mask
    ATTNJIT_DEVICE bool exists() const { return use != TileUse::kSkip; }
  };

  int q_tile_index, kv_tile;

  using Base::Base;

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
    this->enter_plane(static_cast<int>(rest / params.num_q_tiles));
  }

  // Also moves to the batch element and head of the job, whose tiles are loaded next.
  ATTNJIT_DEVICE Job next_job() {
    while (next_sharer < end_sharer) {
      const int sharer = next_sharer++;
      const int batch = this->batch_of(sharer), head = this->head_of_sharer(sharer);
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
    this->clear_sums();
    this->walk([&] { return next_job(); }, [&](int slot, const Job& job) { load(slot, job); },
               [&](const Job& job, int slot) {
                 if (this->has_scores()) add_sharer(job, slot);
               });
    this->enter_batch(this->first_batch, this->first_head);
    this->enter_tile(q_tile_index);
    this->write_sums(kv_tile);
  }
};

template <BackwardMmaConfig kConfig, class BiasGrad, class... Features>
ATTNJIT_DEVICE void backward_dbias_mma(const BackwardParams& params, const BiasPlanes& planes,
                                       const BiasGrad& bias_grad, Features... features) {
  using Set = GradientFeatures<Features...>;
  BackwardDbiasMma<kConfig, Set, BiasGrad>(params, planes, Set(features...), bias_grad).run();
}

}  // namespace attnjit::kernel
