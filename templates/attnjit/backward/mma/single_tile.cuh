#pragma once
#include "attnjit/backward/mma/sharers.cuh"
#include "attnjit/backward/mma/single_tile_config.h"
#include "attnjit/score/resident.cuh"
#include "attnjit/tile/store_warp_rows.cuh"

// The backward of planes of one tile, as windows of an image are, for every GPU from sm_80 on. With
// P and dS of backward/mma/scores.cuh, of all rows and keys of a plane,
//
//   dv = P^T dout        dk = scale dS^T q        dq = scale dS k
//
// all at once, so that nothing is added up in memory but dbias, or sums for the gradient of an
// operand of the score (backward/mma/operand_site.cuh):
//
//                block_kv keys
//              +------+------+----      scores: each warp 16 rows, a span of 32 keys at a time;
//    warp 0    |      |      |          dq:     each warp the same rows, by their dS;
//    warp 1    |    P, dS    |          dk, dv: each warp every so many 16 keys, by P and dS of
//    ...       |      |      |                  all warps
//              +------+------+----
//
// A thread block stays on its SM and walks over (batch element, head) pairs that share a plane of
// these, of which it adds up dS in registers (backward/mma/sharers.cuh). Where there are two stages
// cp.async brings the next plane meanwhile. Shared memory:
//
//   stages of [ Q | dO | K | V | lse and delta | O, where the kernel reads it ], [ P | dS ]
namespace attnjit::kernel {

template <BackwardSingleTileConfig kConfig, class Features, class BiasGrad,
          BackwardMmaConfig kMma = kConfig.mma()>
struct BackwardSingleTile : PlaneSharers<kMma, Features, BiasGrad> {
  static_assert(why_invalid(kConfig) == nullptr,
                "why_invalid(config) in backward/mma/single_tile_config.h");
  using Base = PlaneSharers<kMma, Features, BiasGrad>;
  using Base::bias_grad, Base::block, Base::features, Base::params, Base::sum;
  using Base::end_sharer, Base::next_sharer;
  using typename Base::DoutTile, typename Base::KTile, typename Base::QTile, typename Base::Team,
      typename Base::Tile, typename Base::VTile;
  using Live = LiveRowsOf<kConfig.block_q>;
  using SpanTile = SharedTile<kConfig.block_q, 32>;  // of P or dS
  static constexpr DType kDType = kConfig.dtype;
  static constexpr int kWarps = kMma.num_warps;
  static constexpr int kColumns = kMma.padded_head_dim();
  static constexpr int kColumnsV = kMma.padded_head_dim_v();
  // A warp computes 16 rows of dk and dv, all of their columns.
  using KShare = ColumnShare<kColumns, 1>;
  using VShare = ColumnShare<kColumnsV, 1>;

  // One of the pairs.
  struct Job {
    int sharer, end;
    ATTNJIT_DEVICE bool exists() const { return sharer < end; }
  };

  const BackwardSingleTileParams& all_params;

  ATTNJIT_DEVICE BackwardSingleTile(const BackwardSingleTileParams& p, const BiasPlanes& b,
                                    const Features& f, const BiasGrad& g)
      : Base(p.base, b, f, g), all_params(p) {}

  ATTNJIT_DEVICE static uint32 stage(int slot) {
    return ptx::shared_base() + slot * kConfig.stage_bytes();
  }
  ATTNJIT_DEVICE static QTile q_tile(int slot) { return {stage(slot)}; }
  ATTNJIT_DEVICE static DoutTile dout_tile(int slot) { return {stage(slot) + kMma.q_bytes()}; }
  ATTNJIT_DEVICE static KTile k_tile(int slot) {
    return {stage(slot) + kMma.q_bytes() + kMma.dout_bytes()};
  }
  ATTNJIT_DEVICE static VTile v_tile(int slot) {
    return {stage(slot) + kMma.q_bytes() + kMma.dout_bytes() + kMma.k_bytes()};
  }
  ATTNJIT_DEVICE static uint32 rows(int slot) {
    return stage(slot) + kConfig.inputs_bytes() - kMma.rows_bytes();
  }
  ATTNJIT_DEVICE static DoutTile out_tile(int slot) {
    return {stage(slot) + kConfig.inputs_bytes()};
  }
  // Of span `span` of the keys.
  ATTNJIT_DEVICE static SpanTile p_tile(int span) {
    return {stage(kConfig.num_stages) + span * SpanTile::kBytes};
  }
  ATTNJIT_DEVICE static SpanTile ds_tile(int span) {
    return {p_tile(span).base + kMma.scores_bytes()};
  }

  // Turns to one of the pairs.
  ATTNJIT_DEVICE void enter(int sharer) {
    this->enter_batch(this->batch_of(sharer), this->head_of_sharer(sharer));
    this->enter_tile(0);
  }

  // Starts loading the plane of a pair.
  ATTNJIT_DEVICE void load(int slot, int sharer) {
    enter(sharer);
    const Live live = kConfig.reads_out ? find_live(slot) : this->load_live(block.head, 0);
    if constexpr (kConfig.reads_out) {
      this->template load_queries<kConfig.head_dim_v>(out_tile(slot), all_params.out,
                                                      all_params.out_strides, block.head, 0, live);
    } else {
      this->load_rows(rows(slot), block.head, 0);
    }
    this->template load_queries<kConfig.head_dim>(q_tile(slot), params.q, params.q_strides,
                                                  block.head, 0, live);
    this->template load_queries<kConfig.head_dim_v>(dout_tile(slot), params.dout,
                                                    params.dout_strides, block.head, 0, live);
    const KeyRange keys = this->keys_of_head();
    this->template load_keys<kConfig.head_dim>(k_tile(slot), params.k, params.k_strides, 0, keys);
    this->template load_keys<kConfig.head_dim_v>(v_tile(slot), params.v, params.v_strides, 0, keys);
  }

  // The first row of the plane in arrays of a number per row.
  ATTNJIT_DEVICE int64 first_row() const {
    return (static_cast<int64>(block.batch) * params.num_heads_q + block.head) * params.seqlen_q;
  }
  // The rows that have a live key, which lse tells. Writes lse to shared memory, +inf of the
  // others: their probabilities become 0.
  ATTNJIT_DEVICE Live find_live(int slot) const {
    Live live;
#pragma unroll
    for (int i = 0; i < ceil_div(kConfig.block_q, 32); ++i) {
      const int row = 32 * i + ptx::lane_index();
      const float lse = row < block.seqlen_q ? ptx::load_global(all_params.lse + first_row() + row)
                                             : -ptx::infinity();
      const bool lives = lse != -ptx::infinity();
      live.set(i, ptx::warp_ballot(lives));
      if (this->warp == 0 && (kConfig.block_q % 32 == 0 || row < kConfig.block_q)) {
        ptx::store_shared_4(rows(slot) + 4 * row, ptx::as_bits(lives ? lse : ptx::infinity()));
      }
    }
    return live;
  }
  // rowsum(dout out) - dlse of the thread's rows, 0 of dead ones.
  ATTNJIT_DEVICE void compute_delta(typename Base::RowNumbers& delta,
                                    const typename Base::RowNumbers& lse, int slot) const {
    const int lane = ptx::lane_index();
    const auto element = [](const ptx::Vector16& v, int i) {
      return ptx::widen<kDType>(static_cast<uint16>(v.word[i / 2] >> (16 * (i & 1))));
    };
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = this->warp_row() + 8 * h + lane / 4;
      float sum = 0.0f;
#pragma unroll
      for (int first = 0; first < kColumnsV / 8; first += 4) {
        const int chunk = first + (lane & 3);
        if (kColumnsV % 32 != 0 && chunk >= kColumnsV / 8) continue;
        const ptx::Vector16 out = ptx::load_shared_16(out_tile(slot).address(row, chunk));
        const ptx::Vector16 dout = ptx::load_shared_16(dout_tile(slot).address(row, chunk));
#pragma unroll
        for (int i = 0; i < 8; ++i) sum = fmaf(element(out, i), element(dout, i), sum);
      }
      delta[0][h] = ptx::quad_sum(sum);
      if (all_params.dlse != nullptr && lse[0][h] != ptx::infinity()) {
        delta[0][h] -= ptx::load_global(all_params.dlse + first_row() + row);
      }
    }
  }

  // P and dS of the warp's rows of the plane in `slot`, for all to read.
  ATTNJIT_DEVICE void compute_scores(int slot) {
    typename Base::RowNumbers lse, delta;
    this->read_lse(lse, rows(slot));
    if constexpr (kConfig.reads_out) {
      compute_delta(delta, lse, slot);
    } else {
      this->read_delta(delta, rows(slot));
    }
    // The class of a bit mask's tile would take as long to read as its bits.
    const TileUse use =
        Features::kHasBits || features.tile_use(block.batch, block.head, 0, 0) != TileUse::kPlain
            ? TileUse::kMasked
            : TileUse::kPlain;
    // Registers of sums, and those of a resident bias, have no run-time index.
    constexpr bool kUnrolls = reduces_planes(kConfig.sums) || Base::kSpans <= kMostResident;
#pragma unroll(kUnrolls ? Base::kSpans : 1)
    for (int span = 0; span < Base::kSpans; ++span) {
      Tile p, ds;
      typename Base::Slopes slopes;
      this->scores(p, slopes, q_tile(slot), k_tile(slot), 0, span, use);
      this->exponentiate(p, lse);
      this->score_gradients(ds, p, delta, dout_tile(slot), v_tile(slot), span);
      if constexpr (kConfig.probability_scale() != 1.0f) p *= kConfig.probability_scale();
      this->store_scores(p_tile(span), p, 0);
      if constexpr (kConfig.sums == PlaneSums::kDbias) sum[span] += ds;
      if constexpr (kConfig.sums == PlaneSums::kStoreDbias) bias_grad.add(*this, ds, 0, span);
      this->apply(slopes, ds);
      if constexpr (kConfig.sums == PlaneSums::kOperand) sum[span] += ds;
      this->store_scores(ds_tile(span), ds, 0);
    }
  }

  // Works on the plane in `slot`.
  ATTNJIT_DEVICE void attend(int slot) {
    const int row = this->warp_row();
    if constexpr (kConfig.sums == PlaneSums::kStoreDbias) bias_grad.enter_head(block);
    compute_scores(slot);
    ptx::block_sync();  // P and dS are complete
    write_queries(slot, row);
    constexpr int kTiles = ceil_div(kConfig.block_kv, 16 * kWarps);  // of keys, of each warp
#pragma unroll
    for (int i = 0; i < kTiles; ++i) write_keys(slot, row + 16 * kWarps * i);
  }
  // Computes and writes the warp's rows of dq.
  ATTNJIT_DEVICE void write_queries(int slot, int row) {
    Fragments<1, KShare::kGroups> dq;
    dq = 0.0f;
#pragma unroll
    for (int span = 0; span < Base::kSpans; ++span) {
      add_product<kDType, false, 32, 1>(dq, ds_tile(span), row, k_tile(slot), KShare(0), 32 * span);
    }
    write<kConfig.head_dim>(dq, params.dq, params.dq_strides, row, block.seqlen_q, params.scale);
  }
  // Computes and writes 16 rows of dk and dv.
  ATTNJIT_DEVICE void write_keys(int slot, int key) {
    if (key >= block.seqlen_kv) return;
    Fragments<1, VShare::kGroups> dv;
    dv = 0.0f;
    add_product<kDType, true, kConfig.block_q, 1>(dv, p_tile(key / 32), key % 32, dout_tile(slot),
                                                  VShare(0));
    write<kConfig.head_dim_v>(dv, params.dv, params.dv_strides, key, block.seqlen_kv,
                              1.0f / kConfig.probability_scale());
    Fragments<1, KShare::kGroups> dk;
    dk = 0.0f;
    add_product<kDType, true, kConfig.block_q, 1>(dk, ds_tile(key / 32), key % 32, q_tile(slot),
                                                  KShare(0));
    write<kConfig.head_dim>(dk, params.dk, params.dk_strides, key, block.seqlen_kv, params.scale);
  }

  ATTNJIT_DEVICE void run() {
    this->enter_plane(static_cast<int>(ptx::block_index()));
    if (next_sharer >= end_sharer && !reduces_planes(kConfig.sums)) return;
    this->clear_sums();
    Base::walk(
        [&] {
          return Job{next_sharer++, end_sharer};
        },
        [&](int slot, const Job& job) {
          if (job.exists()) load(slot, job.sharer);
        },
        [&](const Job& job, int slot) {
          enter(job.sharer);
          attend(slot);
        });
    if constexpr (kConfig.sums == PlaneSums::kDbias) {
      block.first_row = 0;  // also where the thread block has no pair
      block.thread_key = ScoreShape(kConfig.scores()).lane_key(ptx::lane_index());
      this->write_sums(0);
    }
    if constexpr (kConfig.sums == PlaneSums::kOperand) {
      this->enter_batch(this->first_batch, this->first_head);
      this->enter_tile(0);
      this->write_operand_sums();
    }
  }

 private:
  // Writes the warp's 16 rows of a gradient.
  template <int kValid, int kGroups>
  ATTNJIT_DEVICE void write(const Fragments<1, kGroups>& part, void* base,
                            const RowStrides& strides, int row, int num_rows, float factor) const {
    uint16* const target =
        Base::head_of(static_cast<uint16*>(base), strides, block.tensor_batch, block.head) +
        row * strides.row;
    store_warp_rows<kDType, kConfig.aligned, kValid>(
        target, strides.row, num_rows - row, [&](int n, int e) { return part[0][n][e] * factor; });
  }
};

template <BackwardSingleTileConfig kConfig, class BiasGrad, class... Features>
ATTNJIT_DEVICE void backward_single_tile(const BackwardSingleTileParams& params,
                                         const BiasPlanes& planes, const BiasGrad& bias_grad,
                                         Features... features) {
  constexpr int kSpans = kConfig.block_kv / 32;
  using Set = GradientFeatures<ResidentOrPlain<Features, kSpans>...>;
  BackwardSingleTile<kConfig, Set, BiasGrad>(
      params, planes, Set(ResidentOrPlain<Features, kSpans>(features)...), bias_grad)
      .run();
}

}  // namespace attnjit::kernel
