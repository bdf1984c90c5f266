#pragma once
#include "attnjit/backward/dkv_wgmma/key_scores.cuh"
#include "attnjit/backward/key_rows.cuh"
#include "attnjit/ptx/matrix.cuh"
#include "attnjit/ptx/opaque.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/tensor_copy.cuh"
#include "attnjit/ptx/warpgroup.cuh"
#include "attnjit/ptx/wgmma.cuh"
#include "attnjit/tile/fragments.cuh"
#include "attnjit/tile/slab_products.cuh"

namespace attnjit::kernel {

// A warpgroup of the Hopper backward that has 64 of the block's keys, at rest, and their dk and dv.
//
// All products have keys in their rows, so that P and dS are operands of dv and dk as they lie in
// registers; dS goes to the warpgroup of dq through shared memory. In a step,
//
//     S   = K Q^T - lse / scale          P  = exp2(exponent_scale S)
//     dP  = V dO^T - delta               dS = P dP
//     dv += P dO                         dk += dS Q
//
// where lse and delta extend the depth by 16: ones in registers times three bf16 numbers each
// (row_bf16x3). Reading them from shared memory, 32 words for each warp and tile, would cost as
// much of its port as an operand (a prototype on an H200: 7 to 10 %). With scale_first a bias is
// added before lse is subtracted, in registers, and only delta is a product.
//
//     tensor cores  [ S ]           [ dP | dv += P dO ]              [ dk += dS Q | next S ]
//     other units         [ mask, P ]              [ dS, to shared ]
//
// Features that change scores by more than an addition make dS = W dP: W, which is P times the
// slopes of the scores, waits in the slot of dS until dP is complete.
//
// A warp-scheduler barrier passes between the two warpgroups around { dk, S of the next tile }, so
// that one multiplies while the other exponentiates. Without it they do not fall into alternate
// phases. With key_parts a warpgroup passes the tiles that drop all of its keys.
template <DkvWgmmaConfig kConfig, class Features, class BiasGrad,
          ScoreShape kShape = kConfig.scores()>
struct BackwardKeys : BackwardKeyScores<kConfig, Features, kShape> {
  using Base = BackwardKeyScores<kConfig, Features, kShape>;
  using Base::block, Base::features, Base::kv_tile, Base::params;
  using Base::kDType, Base::kGroups;
  using Base::lane, Base::shared, Base::warp_row, Base::warpgroup;
  using typename Base::Scores, typename Base::Operand, typename Base::Weights,
      typename Base::Shared;
  using StageState = typename Shared::StageState;
  using SlotState = typename Shared::SlotState;
  using KeyRows = Fragments<1, kConfig.key_columns() / 8>;
  using ValueRows = Fragments<1, kConfig.value_columns() / 8>;
  using KTile = typename Shared::KTile;
  using VTile = typename Shared::VTile;
  using QTile = typename Shared::QTile;
  using DoutTile = typename Shared::DoutTile;
  static constexpr int kStageBytes = QTile::kBytes + DoutTile::kBytes;
  static constexpr bool kPasses = kConfig.key_parts > 1;  // tiles that drop all of its keys

  const DkvWgmmaParams& wgmma_params;
  BiasGrad bias_grad;
  KMajor<KTile> k;                    // the warpgroup's rows, of the work tile
  const KMajor<VTile> v;              // the warpgroup's rows
  const KMajor<QTile> q;              // as operand of S
  const KMajor<DoutTile> dout;        // of dP
  const MnMajor<QTile> q_rows;        // of dk
  const MnMajor<DoutTile> dout_rows;  // of dv
  const uint64 row_bf16x3;            // of lse and delta
  uint32 index = 0;                   // of a tile of queries, which has a stage
  uint32 computed = 0;                // tiles that the warpgroup has computed, where it passes some
  bool begun;                         // a tile of the work tile
  uint32 v_phase;                     // of the work tile's V
  KeyRows dk;
  ValueRows dv;

  ATTNJIT_DEVICE BackwardKeys(const DkvWgmmaParams& p, const Features& f, const BiasGrad& g,
                              int group)
      : Base(p.base, f, group),
        wgmma_params(p),
        bias_grad(g),
        v(VTile::k_major(shared.v() + group * VTile::rows_on(64))),
        q(QTile::k_major(shared.q(0))),
        dout(DoutTile::k_major(shared.dout(0))),
        q_rows(QTile::mn_major(shared.q(0))),
        dout_rows(DoutTile::mn_major(shared.dout(0))),
        row_bf16x3(ptx::short_line_descriptor(shared.rows(0))) {}

  ATTNJIT_DEVICE void run() {
    for (uint32 number = 0;; ++number) {
      const KeyWorkTile work = shared.next_work(number);
      if (!work.exists()) return;
      this->locate(work.at);
      block.thread_key += warp_row;
      dk = 0.0f;
      dv = 0.0f;
      k = KTile::k_major(shared.k(number) + warpgroup * KTile::rows_on(64));
      ptx::barrier_wait(shared.k_full(number), Shared::phase(number));
      v_phase = number & 1;
      begun = false;
      BackwardJob job = work.first;
      const bool any = job.exists();
      while (job.exists()) {
        job = !kPasses || job.parts.keeps(warpgroup) ? step(job) : pass();
      }
      if (any && warpgroup == 0) scheduler_arrive();  // the other one has a dk to go
      if (!any) {                                     // no step has waited for V yet
        ptx::barrier_wait(shared.v_full(), v_phase);
        ptx::barrier_arrive_if(lane == 0, shared.v_empty());
      }
      shared.leave_work(number);
      if (params.num_splits > 1) {
        add_sums();
      } else {
        write();
      }
      if (!kConfig.loops_over_work()) return;
    }
  }

 private:
  // Warpgroups that pass tiles compute different ones, and take no turns.
  ATTNJIT_DEVICE void scheduler_sync() const {
    if constexpr (kPasses) return;
    ptx::named_barrier_sync(Shared::scheduler_barrier(warpgroup), Shared::kSchedulerThreads);
  }
  ATTNJIT_DEVICE void scheduler_arrive() const {
    if constexpr (kPasses) return;
    ptx::named_barrier_arrive(Shared::scheduler_barrier(1 - warpgroup), Shared::kSchedulerThreads);
  }
  // The ring of tiles of dS.
  ATTNJIT_DEVICE int ring() const { return kPasses ? warpgroup : 0; }

  // Passes a job that drops all of the warpgroup's keys and returns the next.
  ATTNJIT_DEVICE BackwardJob pass() {
    const StageState stage_state = {index++};
    const uint32 stage = stage_state.slot();
    ptx::barrier_wait(shared.full(stage), stage_state.full());
    const BackwardJob next = Shared::take(shared.job(index));
    if (!next.exists()) {
      await_v();
      ptx::barrier_arrive_if(lane == 0, shared.v_empty());
    }
    ptx::barrier_arrive_if(lane == 0, shared.empty(stage));
    return next;
  }

  // Computes a job and returns the next.
  ATTNJIT_DEVICE BackwardJob step(const BackwardJob& job) {
    const StageState stage_state = {index};
    const uint32 stage = stage_state.slot();
    ptx::barrier_wait(shared.full(stage), stage_state.full());
    const uint64 bf16x3 = row_bf16x3 + stage * (kConfig.rows_bytes() / 16);
    look_at(job, stage);
    Scores scores;
    Operand p, ds;
    Weights weights;
    // Operands live until their products are done.
    const Ones lse = kConfig.scale_first ? Ones{} : ones(0);
    issue_scores(scores, lse, stage, bf16x3);
    if (begun || warpgroup == 1) scheduler_arrive();
    await_v();
    const BackwardJob next = Shared::take(shared.job(index + 1));
    await_scores(scores, job);
    this->exponentiate(scores, masks(job), stage, p, weights);
    hold(p);
    const SlotState slot_state = {kPasses ? computed++ : index};
    if constexpr (Features::kTransforms) put_weights(weights, slot_state);

    // The same registers: ptxas would otherwise begin dP early in other registers, and there are
    // none.
    Scores& dp = scores;
    const Ones delta = ones(3);
    issue_dp(dp, delta, stage, bf16x3);
    hold(dv);
    ptx::wgmma_fence();
    mma_ab<kDType>(dv, p, dout_rows.of_buffer(stage, kStageBytes));
    ptx::wgmma_commit();
    ptx::wgmma_wait<1>();
    hold(dp);
    // The last dP of the work tile has read V.
    ptx::barrier_arrive_if(lane == 0 && !next.exists(), shared.v_empty());
    put_ds(job, dp, p, weights, slot_state, ds);
    scheduler_sync();
    hold(ds, dk);
    ptx::wgmma_fence();
    mma_ab<kDType>(dk, ds, q_rows.of_buffer(stage, kStageBytes));
    ptx::wgmma_commit();
    ptx::fence_async_proxy();
    ptx::named_barrier_arrive(Shared::ds_full(slot_state.slot(), ring()), Shared::kDsThreads);
    ptx::wgmma_wait<0>();
    hold(p, dv, ds, dk);
    ptx::barrier_arrive_if(lane == 0, shared.empty(stage));
    ++index;
    return next;
  }

  // Ones for three bf16 numbers of each query's row, from `first` on, as the operand of keys.
  struct Ones {
    uint32 word[4];
  };
  ATTNJIT_DEVICE static Ones ones(int first) {
    const int column = 2 * (ptx::opaque(ptx::lane_index()) & 3);  // of the lane, and the next one
    const auto one = [&](int c) { return c >= first && c < first + 3 ? 0x3f80u : 0u; };
    Ones ones;
    ones.word[0] = ones.word[1] = one(column) | one(column + 1) << 16;
    ones.word[2] = ones.word[3] = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) ptx::hold(ones.word[i]);
    return ones;
  }
  // Issues S = K Q^T - lse / scale.
  ATTNJIT_DEVICE void issue_scores(Scores& scores, const Ones& lse, uint32 stage,
                                   uint64 bf16x3) const {
    hold(scores);
    ptx::wgmma_fence();
    mma_abt<kDType>(scores, k, q.of_buffer(stage, kStageBytes));
    if constexpr (!kConfig.scale_first) subtract(scores, lse, bf16x3);
    ptx::wgmma_commit();
  }
  // Issues dP = V dO^T - delta.
  ATTNJIT_DEVICE void issue_dp(Scores& dp, const Ones& delta, uint32 stage, uint64 bf16x3) const {
    hold(dp);
    ptx::wgmma_fence();
    mma_abt<kDType>(dp, v, dout.of_buffer(stage, kStageBytes));
    subtract(dp, delta, bf16x3);
    ptx::wgmma_commit();
  }
  // Waits for V in the first step of a work tile.
  ATTNJIT_DEVICE void await_v() {
    if (!begun) ptx::barrier_wait(shared.v_full(), v_phase);
    begun = true;
  }
  // Waits for S and drops its masked scores.
  ATTNJIT_DEVICE void await_scores(Scores& scores, const BackwardJob& job) {
    const int first_key = kv_tile * kConfig.block_kv;
    [[maybe_unused]] typename Base::Kept kept;
    if constexpr (Base::kKeepsEarly) {
      if (masks(job)) features.keep(block, kept, first_key);
    }
    ptx::wgmma_wait<0>();
    hold(scores);
    if constexpr (Base::kKeepsEarly) {
      if (masks(job)) kept.apply(scores);
    } else if constexpr (!Base::kMasksLast) {
      if (masks(job)) features.mask(block, scores, first_key);
    }
  }
  // Writes the weights to the slot of dS.
  ATTNJIT_DEVICE void put_weights(const Weights& weights, const SlotState& slot_state) const {
    const uint32 slot = slot_state.slot();
    ptx::barrier_wait(shared.ds_empty(slot, ring()), slot_state.empty());
    this->store(weights.word, slot);
    ptx::warp_sync();  // the warp's weights are written
  }
  // Computes dS and hands it to the warpgroup of dq.
  ATTNJIT_DEVICE void put_ds(const BackwardJob& job, const Scores& dp, const Operand& p,
                             Weights& weights, const SlotState& slot_state, Operand& ds) {
    const uint32 slot = slot_state.slot();
    bias_grad.begin_tile(block, job.head, kv_tile * kConfig.block_kv + warp_row);
    if constexpr (Features::kTransforms) {
      this->load(weights.word, slot);
      ptx::warp_sync();  // dS may overwrite them
    }
    this->score_gradients(dp, p, weights, wgmma_params.zero, bias_grad, ds);
    bias_grad.end_tile();
    if constexpr (!Features::kTransforms) {
      ptx::barrier_wait(shared.ds_empty(slot, ring()), slot_state.empty());
    }
    this->store(ds, slot);
  }

  // Whether a job drops keys of the warpgroup.
  ATTNJIT_DEVICE bool masks(const BackwardJob& job) const {
    return kPasses ? job.parts.masks(warpgroup) : job.masks;
  }
  // Moves to a job and starts to load its operands.
  ATTNJIT_DEVICE void look_at(const BackwardJob& job, uint32 stage) {
    if constexpr (Features::kPerHead) this->enter_head(job.head);
    this->set_rows(block, job.tile);
    block.thread_row = block.first_row + ScoreShape(kShape).lane_row(lane);
    features.receive_tile(shared.bias(stage));
    features.fetch(block, kv_tile * kConfig.block_kv,
                   masks(job) ? TileUse::kMasked : TileUse::kPlain);
  }

  // sums += ones bf16x3^T: -lse / scale, or -delta, of each query.
  ATTNJIT_DEVICE static void subtract(Scores& sums, const Ones& ones, uint64 bf16x3) {
    ptx::multiply_async<DType::kBFloat16, ptx::Major::kDepth>(sums[0], ones.word, bf16x3, true);
  }

  // Writes dk and dv of the warp's keys.
  ATTNJIT_DEVICE void write() const {
    const int key = kv_tile * kConfig.block_kv + warp_row;
    write_key_rows<kDType, kConfig.head_dim>(*this, key, dk, params.scale, params.dk,
                                             params.dk_strides);
    write_key_rows<kDType, kConfig.head_dim_v>(*this, key, dv, 1.0f / kConfig.probability_scale(),
                                               params.dv, params.dv_strides);
  }
  // Adds dk and dv to the sums of all splits.
  ATTNJIT_DEVICE void add_sums() const {
    const int key = kv_tile * kConfig.block_kv + warp_row;
    add_key_rows<kConfig.head_dim>(*this, key, dk, params.dk_sum);
    add_key_rows<kConfig.head_dim_v>(*this, key, dv, params.dv_sum);
  }
};

}  // namespace attnjit::kernel
