#pragma once
#include "attnjit/backward/mma/sharers.cuh"
#include "attnjit/backward/mma/tile_stages.cuh"

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
struct BackwardDbiasMma : TileStages<kConfig, PlaneSharers<kConfig, Features, BiasGrad>> {
  static_assert(why_invalid(kConfig) == nullptr, "why_invalid(config) in backward/mma/config.h");
  using Base = TileStages<kConfig, PlaneSharers<kConfig, Features, BiasGrad>>;
  using Base::end_sharer, Base::next_sharer, Base::params, Base::sum;
  using typename Base::Tile;

  // A (batch element, head) that shares the plane and has scores in the tile; empty after the last.
  struct Job {
    int batch, head;
    TileUse use;  // by the mask
    ATTNJIT_DEVICE bool exists() const { return use != TileUse::kSkip; }
  };

  int q_tile_index, kv_tile;

  using Base::Base;

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
      const TileUse use = this->features.tile_use(batch, head, q_tile_index, kv_tile);
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
    if (job.exists()) this->load_tile(slot, job.head, q_tile_index, kv_tile);
  }

  ATTNJIT_DEVICE void add_sharer(const Job& job, int slot) {
    this->enter_batch(job.batch, job.head);
    this->enter_tile(q_tile_index);
    this->for_each_span(slot, kv_tile, job.use,
                        [&](const Tile& ds, const auto&, int span) { sum[span] += ds; });
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
