#pragma once
#include "attnjit/backward/mma/operand_site.cuh"
#include "attnjit/backward/mma/tile_stages.cuh"

// The kernel of what one read of an operand adds to the operand's gradient: dS of
// backward/mma/scores.cuh times the derivative of the score by the element that is read.
//
// One thread block walks along a line of tiles, of the batch elements and heads that share a plane
// of sums: along the keys of some queries, along the queries of some keys, along a diagonal, or it
// stays at one tile, whichever lets sums of elements in registers be those of the gradient
// (backward/mma/operand_site.cuh). Where lines are few, several thread blocks share each out.
namespace attnjit::kernel {

template <BackwardMmaConfig kConfig, class Features, class Site>
struct BackwardOperandGradient : TileStages<kConfig, GradientScores<kConfig, Features>> {
  static_assert(why_invalid(kConfig) == nullptr, "why_invalid(config) in backward/mma/config.h");
  static_assert(Site::kDirection != TileDirection::kDiagonal || kConfig.block_q == kConfig.block_kv,
                "the tiles of a line have the same diagonals");
  using Base = TileStages<kConfig, GradientScores<kConfig, Features>>;
  using Base::block, Base::params;
  using typename Base::Tile;

  // A tile with scores; empty after the last.
  struct Job {
    int batch, head, q_tile, kv_tile;
    TileUse use;  // by the mask
    ATTNJIT_DEVICE bool exists() const { return use != TileUse::kSkip; }
  };

  Site site;
  TileLine line;
  int first_batch, first_head, num_batches, num_heads;  // that share the plane
  int next_sharer, end_sharer;
  int next_tile;  // of the line, of the sharer at hand

  ATTNJIT_DEVICE BackwardOperandGradient(const BackwardParams& p, const Features& f, const Site& s)
      : Base(p, f), site(s) {}

  // A thread block has one line of one plane, and a share of its batch elements and heads.
  ATTNJIT_DEVICE void locate() {
    const OperandGradientParams& sums = site.params;
    const int number = static_cast<int>(ptx::block_index() % sums.num_lines);
    const int rest = static_cast<int>(ptx::block_index() / sums.num_lines);
    const int share = rest % sums.shares, plane = rest / sums.shares;
    line = line_of<Site::kDirection>(number, params.num_q_tiles, params.num_kv_tiles);
    num_heads = params.num_heads_q / sums.heads;
    num_batches = params.batch / sums.batches;
    first_batch = plane / sums.heads * num_batches;
    first_head = plane % sums.heads * num_heads;
    const int sharers = num_batches * num_heads, most = ceil_div(sharers, sums.shares);
    next_sharer = share * most;
    end_sharer = next_sharer + most < sharers ? next_sharer + most : sharers;
    next_tile = 0;
    site.enter(share, plane / sums.heads, plane % sums.heads, line);
  }

  // Also moves to the batch element and head of the job, whose tiles are loaded next.
  ATTNJIT_DEVICE Job next_job() {
    for (; next_sharer < end_sharer; ++next_sharer, next_tile = 0) {
      const int batch = first_batch + next_sharer / num_heads;
      const int head = first_head + next_sharer % num_heads;
      this->enter_batch(batch, head);
      if constexpr (requires { site.add_rows(*this); }) {
        if (next_tile == 0 && site.add_rows(*this)) continue;
      }
      while (next_tile < line.length) {
        const int n = next_tile++;
        const int q_tile = line.q_tile + n * line.q_step;
        const int kv_tile = line.kv_tile + n * line.kv_step;
        if (!this->load_live(head, q_tile).any()) continue;
        const TileUse use = this->features.tile_use(batch, head, q_tile, kv_tile);
        const KeyRange seen = this->keys_of(q_tile);
        const int first_key = kv_tile * kConfig.block_kv, end_key = first_key + kConfig.block_kv;
        if (use != TileUse::kSkip && seen.begin < end_key && seen.end > first_key) {
          return {batch, head, q_tile, kv_tile, use};
        }
      }
    }
    return {0, 0, 0, 0, TileUse::kSkip};
  }

  ATTNJIT_DEVICE void load(int slot, const Job& job) {
    if (job.exists()) this->load_tile(slot, job.head, job.q_tile, job.kv_tile);
  }

  ATTNJIT_DEVICE void add_tile(const Job& job, int slot) {
    this->enter_batch(job.batch, job.head);
    this->enter_tile(job.q_tile);
    this->for_each_span(slot, job.kv_tile, job.use,
                        [&](Tile& ds, const typename Base::Slopes& slopes, int span) {
                          Base::apply(slopes, ds);
                          site.add(*this, ds, job.kv_tile, span);
                        });
  }

  ATTNJIT_DEVICE void run() {
    locate();
    this->walk([&] { return next_job(); }, [&](int slot, const Job& job) { load(slot, job); },
               [&](const Job& job, int slot) {
                 if (this->has_scores()) add_tile(job, slot);
               });
    this->enter_batch(first_batch, first_head);
    site.finish(*this);
  }
};

template <BackwardMmaConfig kConfig, class Site, class... Features>
ATTNJIT_DEVICE void backward_operand_gradient(const BackwardParams& params, const Site& site,
                                              Features... features) {
  using Set = GradientFeatures<Features...>;
  BackwardOperandGradient<kConfig, Set, Site>(params, Set(features...), site).run();
}

}  // namespace attnjit::kernel
