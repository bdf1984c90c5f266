#pragma once
#include "attnjit/backward/mma/shared_bias.cuh"

// dk and dv of a strip of keys, see backward/mma/shared_bias.cuh. Keys are rows of the scores, so
// that P and dS are operands of dv and dk as they lie in registers.
namespace attnjit::kernel {

template <BackwardSharedBiasConfig kConfig, class Features, class BiasGrad>
struct SharedBiasKeys : SharedBiasStrip<kConfig, Features, BiasGrad> {
  using Base = SharedBiasStrip<kConfig, Features, BiasGrad>;
  using Base::block, Base::features, Base::params, Base::strip;
  using Base::k_tile, Base::q_tile, Base::v_tile, Base::dout_tile, Base::rows;
  using Base::kDType, Base::kColumnGroups, Base::kColumnGroupsV, Base::kSpans;
  using typename Base::Job;
  using Scores = Fragments<Base::kTiles, 4>;

  using Base::Base;

  ATTNJIT_DEVICE int first_key() const { return strip * kConfig.block_kv; }
  // Turns to the queries of a span.
  ATTNJIT_DEVICE void enter_span(int span) {
    const int lane = ptx::lane_index();
    block.thread_row = this->span_column(span) + 2 * (lane & 3);
    block.thread_key = this->strip_row() + lane / 4;
  }
  ATTNJIT_DEVICE void enter(const Job& job) { this->enter_batch(job.batch, job.head); }

  // visit(number, m, n, e) for each of the thread's scores of a span, with its query's number,
  // which load_rows() has put at `first`.
  template <class Visit>
  ATTNJIT_DEVICE void for_each_number(uint32 first, Visit visit) const {
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const ptx::Vector8 numbers = ptx::load_shared_8(first + 4 * (block.thread_row + 8 * n));
#pragma unroll
      for (int m = 0; m < Base::kTiles; ++m) {
#pragma unroll
        for (int e = 0; e < 4; ++e) visit(ptx::as_float(numbers.word[e & 1]), m, n, e);
      }
    }
  }

  ATTNJIT_DEVICE void attend(const Job& job, int slot) {
    enter(job);
    Fragments<Base::kTiles, kColumnGroups> dk;
    Fragments<Base::kTiles, kColumnGroupsV> dv;
    dk = 0.0f;
    dv = 0.0f;
#pragma unroll 1
    for (int span = 0; span < kSpans; ++span) {
      enter_span(span);
      const auto q = rows_from(q_tile(slot), this->span_column(span));
      const auto dout = rows_from(dout_tile(slot), this->span_column(span));
      Scores p, ds;
      ptx::FragmentA k[Base::kTiles][Base::kDepth];
      load_operand(k, k_tile(slot), this->strip_row());
      compute_scores<kDType, NaturalOrder>(p, k, q);
      exponentiate(p, slot, span);
      ptx::FragmentA v[Base::kTiles][Base::kDepthV];
      load_operand(v, v_tile(slot), this->strip_row());
      compute_scores<kDType, NaturalOrder>(ds, v, dout);
      for_each_number(rows(slot) + 4 * kConfig.block_q, [&](float delta, int m, int n, int e) {
        ds[m][n][e] = (ds[m][n][e] - delta) * p[m][n][e];
      });
      typename Base::Rounded rounded;
      if constexpr (kConfig.probability_scale() != 1.0f) p *= kConfig.probability_scale();
      Base::round(rounded, p);
      add_key_product<kDType, NaturalOrder>(dv, rounded, dout, 0);
      Base::round(rounded, ds);
      add_key_product<kDType, NaturalOrder>(dk, rounded, q, 0);
    }
    ptx::block_sync();  // all are done with the tiles, which sums overwrite
    this->leave_sums(slot, 0, dk);
    this->leave_sums(slot, kColumnGroups, dv);
    ptx::block_sync();  // the sums of all are there
    write(slot);
  }
  // P = exp(S - lse). No score is dropped: those of keys that no query sees come to nothing but
  // their keys' gradients, which are not written, and lse of dead rows is +inf.
  ATTNJIT_DEVICE void exponentiate(Scores& p, int slot, int span) {
    features.receive_tile(this->held_bias(span));
    features.add(block, p, params.score_scale, first_key());
    for_each_number(rows(slot), [&](float lse, int m, int n, int e) {
      p[m][n][e] = ptx::exp2_approx((p[m][n][e] - lse) * kLog2E);
    });
  }
  // Writes the warp's share of dk or dv: zeros of keys that no query sees.
  ATTNJIT_DEVICE void write(int slot) {
    const bool is_dk = this->first_group() < kColumnGroups;
    const RowStrides& strides = is_dk ? params.dk_strides : params.dv_strides;
    const int key = first_key() + block.thread_key;
    const uint32 kept = ptx::load_shared_4(this->kept_keys(slot) + this->strip_row() / 8) >>
                        (ptx::lane_index() / 4);
    uint16* const head =
        this->key_rows(static_cast<uint16*>(is_dk ? params.dk : params.dv), strides);
    this->write_sums_of(
        slot, is_dk ? 0 : kColumnGroups, is_dk ? kConfig.head_dim : kConfig.head_dim_v,
        is_dk ? params.scale : 1.0f / kConfig.probability_scale(), head + key * strides.row,
        strides.row, block.seqlen_kv - key, [&](int row) { return (kept >> row & 1) != 0; });
  }

  ATTNJIT_DEVICE void run() {
    this->enter_strip(params.num_kv_tiles);
    if (this->next_sharer >= this->end_sharer) return;
    enter({this->first_batch, this->first_head});
#pragma unroll 1
    for (int span = 0; this->computes() && span < kSpans; ++span) {
      enter_span(span);
#pragma unroll 1
      for (int m = 0; m < Base::kTiles; ++m, block.thread_key += 16) {
        features.receive_tile(this->held_bias(span) + m * kHeldTileBytes);
        features.hold_tile(block, first_key());
      }
    }
    this->walk_pairs(
        [&](int slot, const Job& job) {
          enter(job);
          this->load_tiles(slot, 0, strip);
        },
        [&](const Job& job, int slot) { attend(job, slot); });
  }
};

template <BackwardSharedBiasConfig kConfig, class BiasGrad, class... Features>
ATTNJIT_DEVICE void backward_shared_bias_keys(const BackwardParams& params,
                                              const BiasPlanes& planes, const BiasGrad& bias_grad,
                                              Features... features) {
  using Set = GradientFeatures<HeldOrPlain<Features>...>;
  SharedBiasKeys<kConfig, Set, BiasGrad>(params, planes, Set(HeldOrPlain<Features>(features)...),
                                         bias_grad)
      .run();
}

}  // namespace attnjit::kernel
