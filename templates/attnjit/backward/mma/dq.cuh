#pragma once
#include "attnjit/backward/mma/scores.cuh"
#include "attnjit/backward/query_walk.cuh"

// The kernel of dq alone, queries at rest: dq = scale dS K, with dS of backward/mma/scores.cuh. No
// sum is shared by thread blocks, so its results are the same bits every time.
//
// One thread block computes block_q rows of one query head and walks over the keys, tile by tile. A
// warp owns whole rows, so that its dS is an operand of dS K as it lies in registers.
//
// Shared memory: [ Q, at the end dQ | dO | num_stages times K and V | lse and delta ].
namespace attnjit::kernel {

template <BackwardMmaConfig kConfig, class Features>
struct BackwardDqMma : QueryTileWalk<GradientScores<kConfig, Features>> {
  static_assert(why_invalid(kConfig) == nullptr, "why_invalid(config) in backward/mma/config.h");
  static_assert(kConfig.key_warps() == 1, "the kernel of dq needs query_warps == num_warps");
  using Base = QueryTileWalk<GradientScores<kConfig, Features>>;
  using Base::block, Base::end_tile, Base::features, Base::keys, Base::next_tile, Base::params;
  using typename Base::DoutTile, typename Base::Job, typename Base::KTile, typename Base::QTile,
      typename Base::Tile, typename Base::VTile;
  static constexpr int kColumnGroups = kConfig.padded_head_dim() / 8;

  Fragments<Base::kRowTiles, kColumnGroups> dq;

  ATTNJIT_DEVICE BackwardDqMma(const BackwardParams& p, const Features& f) : Base(p, f) {}

  ATTNJIT_DEVICE QTile q_tile() const { return {ptx::shared_base()}; }
  ATTNJIT_DEVICE DoutTile dout_tile() const { return {ptx::shared_base() + kConfig.q_bytes()}; }
  ATTNJIT_DEVICE uint32 stage(int slot) const {
    return ptx::shared_base() + kConfig.q_bytes() + kConfig.dout_bytes() +
           slot * (kConfig.k_bytes() + kConfig.v_bytes());
  }
  ATTNJIT_DEVICE KTile k_tile(int slot) const { return {stage(slot)}; }
  ATTNJIT_DEVICE VTile v_tile(int slot) const { return {stage(slot) + kConfig.k_bytes()}; }
  ATTNJIT_DEVICE uint32 rows() const { return stage(kConfig.num_stages); }

  ATTNJIT_DEVICE void load_keys_of(int slot, const Job& job) {
    if (!job.exists()) return;
    this->template load_keys<kConfig.head_dim>(k_tile(slot), params.k, params.k_strides, job.tile,
                                               keys);
    this->template load_keys<kConfig.head_dim_v>(v_tile(slot), params.v, params.v_strides, job.tile,
                                                 keys);
  }

  // dq += dS K over a span of keys. Score gradients are laid out as an operand already: two column
  // groups are the 16 columns of one A fragment, and K's rows are taken in the same order.
  ATTNJIT_DEVICE void add_dq(const Tile& ds, const KTile& k, int span) {
    const int lane = ptx::lane_index();
    const int key = KeyOrder::row(0, lane & 7) + 2 * (lane >> 3 & 1);
    const auto k_cursor = cursor(k, key, lane >> 4);
#pragma unroll
    for (int n = 0; n < Base::kGroups; n += 2) {
      ptx::FragmentA a[Base::kRowTiles];
#pragma unroll
      for (int m = 0; m < Base::kRowTiles; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float(&group)[4] = ds[m][n + i / 2];
          a[m].word[i] = ptx::pack<kConfig.dtype>(group[2 * (i & 1)], group[2 * (i & 1) + 1]);
        }
      }
#pragma unroll
      for (int column = 0; column < kColumnGroups; column += 2) {
        const ptx::FragmentBPair b =
            ptx::load_fragment_b_transposed(k_cursor.at(32 * span + KeyOrder::row(n, 0), column));
#pragma unroll
        for (int m = 0; m < Base::kRowTiles; ++m) {
          ptx::multiply_accumulate<kConfig.dtype>(dq[m][column], a[m], b.word[0]);
          ptx::multiply_accumulate<kConfig.dtype>(dq[m][column + 1], a[m], b.word[1]);
        }
      }
    }
  }

  ATTNJIT_DEVICE void attend(const Job& job, int slot) {
#pragma unroll
    for (int span = 0; span < Base::kSpans; ++span) {
      Tile p, ds;
      typename Base::Slopes slopes;
      typename Base::RowNumbers row;
      this->scores(p, slopes, q_tile(), k_tile(slot), job.tile, span, job.use);
      this->read_lse(row, rows());
      this->exponentiate(p, row);
      this->read_delta(row, rows());
      this->score_gradients(ds, p, row, dout_tile(), v_tile(slot), span);
      this->apply(slopes, ds);
      add_dq(ds, k_tile(slot), span);
    }
  }

  ATTNJIT_DEVICE void write() {
    ptx::copy_async_wait<0>();
    ptx::block_sync();  // all warps have read Q, which dQ overwrites
    const int lane = ptx::lane_index();
#pragma unroll
    for (int m = 0; m < Base::kRowTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = this->warp_row() + 16 * m + 8 * h + lane / 4;
#pragma unroll
        for (int n = 0; n < kColumnGroups; ++n) {
          ptx::store_shared_4(q_tile().address(row, n) + 4 * (lane & 3),
                              ptx::pack<kConfig.dtype>(dq[m][n][2 * h] * params.scale,
                                                       dq[m][n][2 * h + 1] * params.scale));
        }
      }
    }
    ptx::block_sync();  // dQ is complete
    uint16* const target =
        this->query_rows(static_cast<uint16*>(params.dq), params.dq_strides, block.head) +
        block.first_row * params.dq_strides.row;
    store_tile<kConfig.aligned, kConfig.head_dim, Base::kThreads>(
        q_tile(), [&](int row) { return target + row * params.dq_strides.row; },
        block.seqlen_q - block.first_row);
  }

  ATTNJIT_DEVICE void run() {
    this->locate();
    if (!this->has_queries()) return;
    this->enter_tile(this->q_tile_index);
    const LiveRows live = this->load_live(block.head, this->q_tile_index);
    if (!live.any()) end_tile = next_tile;
    this->template load_queries<kConfig.head_dim>(q_tile(), params.q, params.q_strides, block.head,
                                                  this->q_tile_index, live);
    this->template load_queries<kConfig.head_dim_v>(dout_tile(), params.dout, params.dout_strides,
                                                    block.head, this->q_tile_index, live);
    this->load_rows(rows(), block.head, this->q_tile_index);
    dq = 0.0f;
    this->walk([&] { return this->next_job(); },
               [&](int slot, const Job& job) { load_keys_of(slot, job); },
               [&](const Job& job, int slot) { attend(job, slot); });
    write();
  }
};

template <BackwardMmaConfig kConfig, class... Features>
ATTNJIT_DEVICE void backward_dq_mma(const BackwardParams& params, Features... features) {
  using Set = GradientFeatures<Features...>;
  BackwardDqMma<kConfig, Set>(params, Set(features...)).run();
}

}  // namespace attnjit::kernel
