#pragma once
#include "attnjit/backward/mma/shared_bias.cuh"
#include "attnjit/ptx/opaque.cuh"

// dq and dbias of a strip of queries, see backward/mma/shared_bias.cuh.
namespace attnjit::kernel {

template <BackwardSharedBiasConfig kConfig, class Features, class BiasGrad>
struct SharedBiasQueries : SharedBiasStrip<kConfig, Features, BiasGrad> {
  using Base = SharedBiasStrip<kConfig, Features, BiasGrad>;
  using Base::block, Base::features, Base::params, Base::strip, Base::sum;
  using Base::k_tile, Base::q_tile, Base::v_tile, Base::dout_tile, Base::rows;
  using Base::kDType, Base::kColumnGroups, Base::kSpans;
  using typename Base::Tile;

  using Base::Base;

  using typename Base::Job;

  ATTNJIT_DEVICE void enter(const Job& job) {
    this->enter_batch(job.batch, job.head);
    this->enter_tile(strip);
  }
  // dS of a span of the keys.
  ATTNJIT_DEVICE void compute_ds(Tile& ds, int slot, int span) {
    const int first_key = this->span_column(span), row = this->strip_row();
    const uint32 bits = ptx::load_shared_4(this->kept_keys(slot) + first_key / 8);
    Tile p;
    ptx::FragmentA q[Base::kTiles][Base::kDepth];
    load_operand(q, q_tile(slot), row);
    compute_scores<kDType, KeyOrder>(p, q, rows_from(k_tile(slot), first_key));
    features.receive_tile(this->held_bias(span));
    features.add(block, p, params.score_scale, first_key);
    const uint32 kept = bits >> KeyOrder::thread_key(ptx::lane_index());
    typename Base::RowNumbers number;
    this->read_lse(number, rows(slot));
    p.for_each([&](float& score, int m, int n, int e) {
      if ((kept & 1u << KeyOrder::offset(n, e)) == 0) score = -ptx::infinity();
      score = ptx::exp2_approx((score - number[m][e / 2]) * kLog2E);
    });
    ptx::FragmentA dout[Base::kTiles][Base::kDepthV];
    load_operand(dout, dout_tile(slot), row);
    compute_scores<kDType, KeyOrder>(ds, dout, rows_from(v_tile(slot), first_key));
    this->read_delta(number, rows(slot));
    ds.for_each([&](float& score, int m, int n, int e) {
      score = (score - number[m][e / 2]) * p[m][n][e];
    });
  }

  ATTNJIT_DEVICE void attend(const Job& job, int slot) {
    enter(job);
    Fragments<Base::kTiles, kColumnGroups> dq;
    dq = 0.0f;
#pragma unroll
    for (int span = 0; span < kSpans; ++span) {
      // Addresses are computed anew for each span, to save registers.
      Base::warp = ptx::opaque(Base::warp);
      Tile ds;
      compute_ds(ds, slot, span);
      sum[span] += ds;
      typename Base::Rounded rounded;
      Base::round(rounded, ds);
      add_key_product<kDType>(dq, rounded, rows_from(k_tile(slot), this->span_column(span)), 0);
    }
    ptx::block_sync();  // all are done with the tiles, which sums overwrite
    this->leave_sums(slot, 0, dq);
    ptx::block_sync();  // the sums of all are there
    this->write_sums_of(
        slot, 0, kConfig.head_dim, params.scale,
        this->query_rows(static_cast<uint16*>(params.dq), params.dq_strides, block.head) +
            block.thread_row * params.dq_strides.row,
        params.dq_strides.row, block.seqlen_q - block.thread_row, [](int) { return true; });
  }

  ATTNJIT_DEVICE void run() {
    this->enter_strip(params.num_q_tiles);
    this->clear_sums();
    enter({this->first_batch, this->first_head});
#pragma unroll 1
    for (int span = 0; span < kSpans; ++span) {
      features.receive_tile(this->held_bias(span));
      features.hold_tile(block, this->span_column(span));
    }
    this->walk_pairs(
        [&](int slot, const Job& job) {
          enter(job);
          this->load_tiles(slot, strip, 0);
        },
        [&](const Job& job, int slot) { attend(job, slot); });
    enter({this->first_batch, this->first_head});
    this->write_sums(0);
  }
};

template <BackwardSharedBiasConfig kConfig, class BiasGrad, class... Features>
ATTNJIT_DEVICE void backward_shared_bias_queries(const BackwardParams& params,
                                                 const BiasPlanes& planes,
                                                 const BiasGrad& bias_grad, Features... features) {
  using Set = GradientFeatures<HeldOrPlain<Features>...>;
  SharedBiasQueries<kConfig, Set, BiasGrad>(params, planes, Set(HeldOrPlain<Features>(features)...),
                                            bias_grad)
      .run();
}

}  // namespace attnjit::kernel
