#pragma once
#include "attnjit/backward/key_walk.cuh"
#include "attnjit/backward/mma/scores.cuh"
#include "attnjit/ptx/accumulate.cuh"
#include "attnjit/ptx/opaque.cuh"

// The portable backward, keys at rest: dk, dv and, as the config says, a share of dq, for every GPU
// from sm_80 on. With P and dS of backward/mma/scores.cuh,
//
//   dv = P^T dout        dk = scale dS^T q        dq = scale dS k
//
// One thread block keeps a tile of keys of one kv head and walks over the queries of all heads that
// share it, tile by tile, so that dk and dv of the group are added up in registers:
//
//              block_kv keys
//             +------+------+          scores: each warp warp_queries() by warp_keys();
//   block_q   |  P, dS      |          dk, dv: each warp 32 keys and a share of the columns;
//   queries   |             |          dq:     each warp 32 queries and a share of the columns
//             +------+------+
//
// P and dS pass between these warps through shared memory: [ K, at the end dK | V, at the end dV |
// num_stages times Q and dO | P | dS, twice where dq is
//   deferred | num_stages times lse and delta ].
// dq is added up in fp32 over the key tiles, and so are dk and dv where their queries are split.
namespace attnjit::kernel {

// The policy without a gradient of a bias. The other policies are in score/bias_grad.cuh.
struct NoBiasGrad {
  ATTNJIT_DEVICE void enter_head(const Block&) {}
  // A tile has no kept score.
  template <class Kernel>
  ATTNJIT_DEVICE void skip(Kernel&, int, int, int) {}
  // Takes the score gradients of a span of the current tile.
  template <class Kernel>
  ATTNJIT_DEVICE void add(Kernel&, const typename Kernel::Tile&, int, int) {}
  // Ends the tiles of the current head; the team calls it together.
  template <class Team, class Kernel>
  ATTNJIT_DEVICE void leave_head(Team, Kernel&, int) {}
};

template <BackwardMmaConfig kConfig, class Features, class BiasGrad>
struct BackwardDkvMma : KeyTileWalk<GradientScores<kConfig, Features>> {
  static_assert(why_invalid(kConfig) == nullptr, "why_invalid(config) in backward/mma/config.h");
  using Base = KeyTileWalk<GradientScores<kConfig, Features>>;
  using Base::block, Base::features, Base::kv_tile, Base::params;
  using typename Base::DoutTile, typename Base::KTile, typename Base::QTile, typename Base::Tile,
      typename Base::VTile;
  using typename Base::Job;
  using typename Base::Team;
  using PTile = ScoreTile<kConfig.block_q, kConfig.block_kv>;
  static constexpr DType kDType = kConfig.dtype;
  static constexpr int kStages = kConfig.num_stages;
  static constexpr int kColumns = kConfig.padded_head_dim();
  static constexpr int kColumnsV = kConfig.padded_head_dim_v();
  // dk and dv: warps along the keys, 32 rows each where there are enough, and along the columns.
  static constexpr int kKeyRows = kConfig.product_rows(kConfig.block_kv, kConfig.num_warps);
  static constexpr int kKeyTiles = kKeyRows / 16;
  static constexpr int kKeySplit = kConfig.num_warps * kKeyRows / kConfig.block_kv;
  using KShare = ColumnShare<kColumns, kKeySplit>;
  using VShare = ColumnShare<kColumnsV, kKeySplit>;
  // dq: the same along the queries; half of the warps take two shares of the columns in turn.
  static constexpr bool kDefersDq = kConfig.defers_dq();
  static constexpr int kDqShares = kDefersDq ? 2 : 1;
  static constexpr int kQueryRows = kConfig.product_rows(kConfig.block_q, kConfig.dq_warps());
  static constexpr int kQueryTiles = kQueryRows / 16;
  static constexpr int kQuerySplit = kConfig.dq_warps() * kQueryRows / kConfig.block_q;
  using QShare = ColumnShare<kColumns, kQuerySplit * kDqShares>;

  BiasGrad bias_grad;
  uint32 shared;         // base of the shared memory
  int dq_head, dq_tile;  // whose share of dq is not added yet; no tile: -1
  int ds_slot;           // of the current tile
  Fragments<kKeyTiles, KShare::kGroups> dk;
  Fragments<kKeyTiles, VShare::kGroups> dv;

  ATTNJIT_DEVICE BackwardDkvMma(const BackwardParams& p, const Features& f, const BiasGrad& g)
      : Base(p, f), bias_grad(g), shared(ptx::shared_base()), dq_head(0), dq_tile(-1), ds_slot(0) {}

  ATTNJIT_DEVICE KTile k_tile() const { return {shared}; }
  ATTNJIT_DEVICE VTile v_tile() const { return {shared + kConfig.k_bytes()}; }
  ATTNJIT_DEVICE uint32 stage(int slot) const {
    return shared + kConfig.k_bytes() + kConfig.v_bytes() +
           slot * (kConfig.q_bytes() + kConfig.dout_bytes());
  }
  ATTNJIT_DEVICE QTile q_tile(int slot) const { return {stage(slot)}; }
  ATTNJIT_DEVICE DoutTile dout_tile(int slot) const { return {stage(slot) + kConfig.q_bytes()}; }
  ATTNJIT_DEVICE uint32 rows(int slot) const {
    return shared + kConfig.shared_bytes() - (kStages - slot) * kConfig.rows_bytes();
  }
  // Shared memory that no warp uses between the barriers around leave_head().
  ATTNJIT_DEVICE uint32 scratch() const { return stage(kStages); }
  ATTNJIT_DEVICE PTile p_tile() const { return {stage(kStages)}; }
  ATTNJIT_DEVICE PTile ds_tile(int slot) const {
    return {stage(kStages) + (1 + slot) * kConfig.scores_bytes()};
  }

  ATTNJIT_DEVICE Job next_job() {
    return Base::next_job([&](int head, int tile) { bias_grad.skip(*this, head, tile, kv_tile); });
  }

  ATTNJIT_DEVICE void load_rows_of(int slot, const Job& job) {
    if (!job.exists()) return;
    this->template load_queries<kConfig.head_dim>(q_tile(slot), params.q, params.q_strides,
                                                  job.head, job.tile, job.live);
    this->template load_queries<kConfig.head_dim_v>(
        dout_tile(slot), params.dout, params.dout_strides, job.head, job.tile, job.live);
    this->load_rows(rows(slot), job.head, job.tile);
    features.prefetch(Team(), block, job.head, job.tile, kv_tile);
  }

  // First key or query of the warp's share of dk and dv, or of dq, and its columns.
  ATTNJIT_DEVICE int grad_key() const { return Base::warp / kKeySplit * kKeyRows; }
  ATTNJIT_DEVICE int dq_warp() const {
    return Base::warp - (kConfig.num_warps - kConfig.dq_warps());
  }
  ATTNJIT_DEVICE int grad_query() const { return dq_warp() / kQuerySplit * kQueryRows; }
  ATTNJIT_DEVICE KShare k_share() const { return KShare(Base::warp % kKeySplit); }
  ATTNJIT_DEVICE VShare v_share() const { return VShare(Base::warp % kKeySplit); }
  ATTNJIT_DEVICE QShare q_share(int i) const {
    return QShare(dq_warp() % kQuerySplit * kDqShares + i);
  }

  // dq += dS K over this tile's keys, for a tile of queries.
  ATTNJIT_DEVICE void add_dq(int head, int tile, int slot) {
    const auto [origin, num_rows] = this->padded_rows_of(head);
#pragma unroll 1
    for (int i = 0; i < kDqShares; ++i) {
      Fragments<kQueryTiles, QShare::kGroups> dq;
      dq = 0.0f;
      add_product<kDType, false, kConfig.block_kv, kQueryTiles>(dq, ds_tile(slot), grad_query(),
                                                                k_tile(), q_share(i));
      add_fragments<kConfig.head_dim, kQueryTiles>(params.dq_sum, dq, q_share(i), origin,
                                                   tile * kConfig.block_q + grad_query(), num_rows);
    }
  }
  // Adds dq of the previous tile, by the warps without scores.
  ATTNJIT_DEVICE void add_deferred_dq() {
    if (!this->has_scores() && dq_tile >= 0) add_dq(dq_head, dq_tile, ds_slot ^ 1);
  }
  // Adds fragments of rows first_row ... to their sums, which begin at row `origin` of all; those
  // past `padded_rows` do not exist.
  template <int kValid, int kTiles, class Share>
  ATTNJIT_DEVICE static void add_fragments(float* sums,
                                           const Fragments<kTiles, Share::kGroups>& fragments,
                                           const Share& share, int64 origin, int first_row,
                                           int padded_rows) {
    constexpr int kGroups = ceil_div(kValid, 8);
    float* first = sums + (origin + first_row) * (8 * kGroups) + share.group(0) * 128;
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
      if (first_row + 16 * m >= padded_rows) continue;
#pragma unroll
      for (int n = 0; n < Share::kGroups; ++n) {
        if (!share.has(n / 2) || share.group(n / 2) + n % 2 >= kGroups) continue;
        ptx::add_fragment(first + (m * kGroups + n) * 128, fragments[m][n]);
      }
    }
  }

  ATTNJIT_DEVICE void store_probabilities(const Tile& p, int span) const {
    if constexpr (kConfig.probability_scale() == 1.0f) {
      this->store_scores(p_tile(), p, span);
    } else {
      Tile scaled = p;
      scaled *= kConfig.probability_scale();
      this->store_scores(p_tile(), scaled, span);
    }
  }
  // Computes the warp's share of P and dS into shared memory.
  ATTNJIT_DEVICE void compute_scores(const Job& job, int slot) {
    // With one span delta is read after P; with several it would be read several times, which costs
    // more than its registers (H200, 2026-11-21: D64 with two spans, 5 %).
    constexpr bool kLateDelta = Base::kSpans == 1;
    typename Base::RowNumbers lse, delta;
    this->read_lse(lse, rows(slot));
    if constexpr (!kLateDelta) this->read_delta(delta, rows(slot));
#pragma unroll
    for (int span = 0; span < Base::kSpans; ++span) {
      Tile p, ds;
      typename Base::Slopes slopes;
      this->scores(p, slopes, q_tile(slot), k_tile(), kv_tile, span, job.use);
      this->exponentiate(p, lse);
      store_probabilities(p, span);
      if constexpr (kLateDelta) this->read_delta(delta, rows(slot));
      this->score_gradients(ds, p, delta, dout_tile(slot), v_tile(), span);
      bias_grad.add(*this, ds, kv_tile, span);
      this->apply(slopes, ds);
      this->store_scores(ds_tile(ds_slot), ds, span);
    }
  }
  // Computes the tile of queries in `slot`.
  ATTNJIT_DEVICE void attend(const Job& job, int slot) {
    if (job.head != block.head) {
      bias_grad.leave_head(Team(), *this, kv_tile);
      this->enter_head(job.head);
      bias_grad.enter_head(block);
    }
    this->enter_tile(job.tile);
    if constexpr (kConfig.refreshes(Fresh::kShared)) shared = ptx::opaque(shared);
    if constexpr (kConfig.refreshes(Fresh::kWarp)) Base::warp = ptx::opaque(Base::warp);
    if constexpr (kDefersDq) add_deferred_dq();
    if (this->has_scores()) compute_scores(job, slot);
    ptx::block_sync();  // P and dS are complete
    add_product<kDType, true, kConfig.block_q, kKeyTiles>(dv, p_tile(), grad_key(), dout_tile(slot),
                                                          v_share());
    add_product<kDType, true, kConfig.block_q, kKeyTiles>(dk, ds_tile(ds_slot), grad_key(),
                                                          q_tile(slot), k_share());
    if constexpr (kDefersDq) {
      dq_head = job.head;
      dq_tile = job.tile;
      ds_slot ^= 1;
    } else if constexpr (kConfig.adds_dq) {
      add_dq(job.head, job.tile, ds_slot);
    }
  }

  // Stages the warp's share of a gradient in `tile`, rounded, and writes the tile's rows.
  template <class SharedT, class Share>
  ATTNJIT_DEVICE void stage_rows(const SharedT& tile,
                                 const Fragments<kKeyTiles, Share::kGroups>& fragments,
                                 const Share& share, float factor) const {
    const int lane = ptx::lane_index();
#pragma unroll
    for (int m = 0; m < kKeyTiles; ++m) {
#pragma unroll
      for (int n = 0; n < Share::kGroups; ++n) {
        if (!share.has(n / 2)) continue;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int row = grad_key() + 16 * m + 8 * h + lane / 4;
          ptx::store_shared_4(tile.address(row, share.group(n / 2) + n % 2) + 4 * (lane & 3),
                              ptx::pack<kDType>(fragments[m][n][2 * h] * factor,
                                                fragments[m][n][2 * h + 1] * factor));
        }
      }
    }
  }
  template <int kValid, class SharedT>
  ATTNJIT_DEVICE void write_rows(const SharedT& tile, void* base, const RowStrides& strides) const {
    const int first = kv_tile * kConfig.block_kv;
    uint16* const target =
        this->key_rows(static_cast<uint16*>(base), strides) + first * strides.row;
    store_tile<kConfig.aligned, kValid, Base::kThreads>(
        tile, [=](int row) { return target + row * strides.row; }, block.seqlen_kv - first);
  }

  ATTNJIT_DEVICE void write() {
    ptx::copy_async_wait<0>();
    ptx::block_sync();  // all warps have read K and V, which dK and dV overwrite
    stage_rows(k_tile(), dk, k_share(), params.scale);
    stage_rows(v_tile(), dv, v_share(), 1.0f / kConfig.probability_scale());
    ptx::block_sync();  // both are complete
    write_rows<kConfig.head_dim>(k_tile(), params.dk, params.dk_strides);
    write_rows<kConfig.head_dim_v>(v_tile(), params.dv, params.dv_strides);
  }

  ATTNJIT_DEVICE void write_sums() {
    const int padded = round_up(params.seqlen_kv, kRowBlock);
    const int64 origin =
        (static_cast<int64>(block.batch) * (params.num_heads_q / kConfig.gqa_ratio) +
         this->kv_head()) *
        padded;
    const int row = kv_tile * kConfig.block_kv + grad_key();
    add_fragments<kConfig.head_dim, kKeyTiles>(params.dk_sum, dk, k_share(), origin, row, padded);
    add_fragments<kConfig.head_dim_v, kKeyTiles>(params.dv_sum, dv, v_share(), origin, row, padded);
  }

  ATTNJIT_DEVICE void run() {
    this->locate();
    if (!this->has_keys()) return;
    bias_grad.enter_head(block);
    const KeyRange keys = this->keys_of_head();
    this->template load_keys<kConfig.head_dim>(k_tile(), params.k, params.k_strides, kv_tile, keys);
    this->template load_keys<kConfig.head_dim_v>(v_tile(), params.v, params.v_strides, kv_tile,
                                                 keys);
    dk = 0.0f;
    dv = 0.0f;
    this->walk([&] { return next_job(); },
               [&](int slot, const Job& job) { load_rows_of(slot, job); },
               [&](const Job& job, int slot) { attend(job, slot); });
    if constexpr (kDefersDq) add_deferred_dq();
    bias_grad.leave_head(Team(), *this, kv_tile);
    if (params.num_splits == 1) {
      write();
    } else {
      write_sums();
    }
  }
};

template <BackwardMmaConfig kConfig, class BiasGrad, class... Features>
ATTNJIT_DEVICE void backward_dkv_mma(const BackwardParams& params, const BiasGrad& bias_grad,
                                     Features... features) {
  using Set = GradientFeatures<Features...>;
  BackwardDkvMma<kConfig, Set, BiasGrad>(params, Set(features...), bias_grad).run();
}

}  // namespace attnjit::kernel
