#pragma once
#include "attnjit/forward/rows.cuh"
#include "attnjit/forward/softmax.cuh"
#include "attnjit/forward/wgmma/epilogue.cuh"
#include "attnjit/forward/wgmma/shared.cuh"
#include "attnjit/forward/wgmma/softmax_exponents.cuh"
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/named_barrier.cuh"
#include "attnjit/ptx/opaque.cuh"
#include "attnjit/ptx/tensor_copy.cuh"
#include "attnjit/ptx/warpgroup.cuh"
#include "attnjit/ptx/wgmma.cuh"
#include "attnjit/score/feature.cuh"
#include "attnjit/score/kept_keys.cuh"
#include "attnjit/tile/fragments.cuh"
#include "attnjit/tile/slab_products.cuh"

namespace attnjit::kernel {

// A warpgroup of the Hopper forward that multiplies: 64 rows of each block of rows.
//
// One pipeline goes through all tiles of all blocks of rows. In a step, S = Q K^T of a tile
// overlaps out += P V of the previous tile, which may belong to the previous block of rows; only
// the very last P V runs alone:
//
//     tensor cores    [ S(i)  | out += P V(i-1) ]                 [ S(i+1) | out += P V(i) ]
//     other units                      [ softmax of S(i) -> P ]
//
// A tile of zeros precedes the first, so the loop needs no prologue (10 % of compile time).
//
// Warpgroups alternate on the tensor cores: one multiplies while the other exponentiates.
template <ForwardWgmmaConfig kConfig, class Features, ScoreShape kShape = kConfig.scores()>
struct ForwardConsumer : ForwardEpilogue<kConfig, Features> {
  static constexpr int kGroups = kConfig.block_kv / 8;  // of 8 keys
  static constexpr int kWarpgroups = kConfig.consumers();
  using Epilogue = ForwardEpilogue<kConfig, Features>;
  using Epilogue::features, Epilogue::lane, Epilogue::maxima, Epilogue::out, Epilogue::params;
  using Epilogue::kSummedGroups;
  using Epilogue::release_stored, Epilogue::shared, Epilogue::warp_row, Epilogue::warpgroup;
  using typename Epilogue::Rows, typename Epilogue::Shared;
  using QueryState = typename Shared::QueryState;
  using QTile = typename Shared::QTile;
  using KTile = typename Shared::KTile;
  using VTile = typename Shared::VTile;
  // The largest scores are found among changed scores.
  static constexpr bool kInExponents = Features::kInExponents && !kConfig.row_max;

  // Kinds of steps. Each has its own code path: a branch inside a step keeps the compiler from
  // interleaving its stages (a prototype on an H200: 8 to 9 %).
  enum class Step : int {
    kFirst,   // of a block of rows
    kMasked,  // keys are dropped
    kEdge,    // first or masked, with shares_masked_path
    kPlain,
  };

  const KMajor<KTile> k;
  const MnMajor<VTile> v;
  const uint64 ones_descriptor;  // of the last product of P, see multiply_p_v()
  KMajor<QTile> q = {0};         // of the current rows
  ForwardJob job;
  static constexpr uint32 kNoRows = ~0u;
  uint32 rows_index = kNoRows;                 // blocks of rows before the current one
  typename Shared::TileState tile_state = {};  // of the job's K, and of V of the tile before
  Rows rows;
  Probabilities<1, kGroups> probabilities = {};  // of the tile before
  bool adds = false;                             // `out` holds products already
  bool open = false;                             // rows have begun that are not written yet
  static constexpr bool kSkips = kSkipsUnseen<kConfig, Features>;

  ATTNJIT_DEVICE ForwardConsumer(const ForwardWgmmaParams& p, const Features& f, int group)
      : Epilogue(p, f, group),
        k(KTile::k_major(shared.k(0))),
        v(VTile::mn_major(shared.v(0))),
        ones_descriptor(describe_ones()) {}

  ATTNJIT_DEVICE void run() {
    ptx::barrier_wait(shared.q_full(subtile_of(query_state(0))), 0);
    job = ForwardJob::from(shared.take(Shared::kFirstJob));
    if (kConfig.teams > 1 && !job.exists()) return;
    if (warpgroup == kWarpgroups - 1) scheduler_arrive();  // the very first one
    // The first product overwrites `out`, but ptxas 12.4 to 12.8 serialises all products (C7515)
    // where its registers have no value before the loop.
    out = 0.0f;
    bool more = true;
    while (more) {
      if (job.needs == 0) {
        step<Step::kPlain>();
      } else if (!kConfig.shares_masked_path && job.masks_only(kSkips ? warpgroup : 0)) {
        step<Step::kMasked>();
      } else {
        more = step_at_edge();
      }
    }
    if constexpr (kConfig.stages_out()) ptx::tensor_store_wait_read();
  }

 private:
  ATTNJIT_DEVICE QueryState query_state(uint32 rows) const {
    return Shared::query_state(rows, warpgroup);
  }
  ATTNJIT_DEVICE uint32 subtile_of(const QueryState& of) const {
    return Shared::q_subtile(of.slot(), warpgroup);
  }

  // Warp-scheduler barriers: named barrier 1 + w opens when the warpgroup before w has issued its
  // products.
  ATTNJIT_DEVICE void scheduler_sync() const {
    if (kWarpgroups > 1) ptx::named_barrier_sync(1 + warpgroup, 256);
  }
  ATTNJIT_DEVICE void scheduler_arrive() const {
    if (kWarpgroups == 1) return;
    const int next = warpgroup + 1 == kWarpgroups ? 0 : warpgroup + 1;
    ptx::named_barrier_arrive(1 + next, 256);
  }
  // Of two warpgroups the first waits for the loads; the second follows it through the scheduler
  // barrier.
  ATTNJIT_DEVICE bool waits() const { return kWarpgroups != 2 || warpgroup == 0; }
  // Waits for K of the job's tile and for the warpgroup's turn. Returns the word of the next job.
  ATTNJIT_DEVICE uint32 take_turn(uint32 slot, uint32 full) const {
    if (waits()) ptx::barrier_wait(shared.k_full(slot), full);
    scheduler_sync();
    return shared.take(Shared::job_word(slot));
  }
  ATTNJIT_DEVICE void await_v(uint32 slot, uint32 full) const {
    if (waits()) ptx::barrier_wait(shared.v_full(slot), full);
  }
  ATTNJIT_DEVICE void release_k(uint32 slot) const {
    ptx::barrier_arrive_if(lane == 0, shared.k_empty(slot));
  }
  ATTNJIT_DEVICE void release_v(uint32 slot) const {
    ptx::barrier_arrive_if(lane == 0, shared.v_empty(slot));
  }

  // The first step of a block of rows, or the end, and with shares_masked_path also a masked step.
  // Closes the previous rows in one code path; a second copy would take 10 % of the compile time.
  ATTNJIT_DEVICE bool step_at_edge() {
    constexpr Step kStep = kConfig.shares_masked_path ? Step::kEdge : Step::kFirst;
    Rows closing = rows;
    const uint32 closed = rows_index;
    const bool more = job.exists();
    const bool skips = kSkips && job.unseen_by(warpgroup);
    const bool closes = open && (!more || skips || begins_rows<kStep>());
    if (!more) {
      end();
    } else if (skips) {
      skip();
      open = false;
    } else {
      step<kStep>();
      open = true;
    }
    if (closes) this->write(closing, query_state(closed).slot(), closed);
    return more;
  }
  template <Step kStep>
  ATTNJIT_DEVICE bool begins_rows() const {
    return kStep == Step::kFirst || (kStep == Step::kEdge && job.first());
  }

  // A step: S = Q K^T of the job's tile and out += P V of the previous tile, then the softmax of S
  // during the latter.
  template <Step kStep>
  ATTNJIT_DEVICE void step() {
    const bool begins = begins_rows<kStep>();
    if (begins) begin_rows();
    // Early, because operands take longer to arrive than Q K^T takes: once the registers of the
    // previous tile are free.
    if constexpr (kStep != Step::kFirst) fetch_operands<kStep>();
    const int first_key = job.tile * kConfig.block_kv;
    const uint32 slot = tile_state.slot(), full = tile_state.full();
    const uint32 next_job = take_turn(slot, full);

    Fragments<1, kGroups> scores;
    hold(scores);
    hold(out, probabilities[0]);
    ptx::wgmma_fence();
    mma_abt<kConfig.dtype>(scores, q_at_hand(), k.of_buffer(slot));
    ptx::wgmma_commit();
    await_v(slot, full);
    issue_p_v(slot);
    scheduler_arrive();
    // During the products, which do not need the addresses of new rows.
    if constexpr (kStep == Step::kFirst) fetch_operands<kStep>();
    if (!begins || Shared::kQueries == 3) release_stored();
    KeptKeys<kShape> kept;
    if constexpr (kStep != Step::kPlain) features.keep(rows.block, kept, first_key);
    ptx::wgmma_wait<1>();
    hold(scores);
    release_k(slot);
    if constexpr (!kConfig.stages_out()) release_q(ForwardJob::from(next_job));

    Probabilities<1, kGroups> fresh;
    RowValues<1> correction;
    const bool corrects = exponentiate<kStep>(begins, first_key, scores, kept, fresh, correction);
    ptx::wgmma_wait<0>();
    hold(out, probabilities[0]);
    release_v(slot);
    tile_state.advance();
    hand_on(fresh);
    adds = !begins;
    if (adds && corrects) rescale(correction);
    job = ForwardJob::from(next_job);
  }

  // Skips a tile of which no row sees a key. Open rows get the P V of the tile before, their last
  // one, and the next step multiplies that P once more, into an `out` that it begins anew. Rows
  // that would begin with this tile begin with the next one.
  ATTNJIT_DEVICE void skip() {
    const uint32 slot = tile_state.slot(), full = tile_state.full();
    release_stored();  // the producer may wait for the buffer before it loads this tile
    ForwardJob next = ForwardJob::from(take_turn(slot, full));
    await_v(slot, full);
    if (open) multiply_last(slot);
    scheduler_arrive();  // tiles are skipped in turn as well
    release_k(slot);
    release_v(slot);
    if constexpr (!kConfig.stages_out()) release_q(next);  // of open rows, with their last tile
    tile_state.advance();
    if (job.first()) next.needs |= ForwardJob::kFirst;
    job = next;
  }
  ATTNJIT_DEVICE void multiply_last(uint32 slot) {
    hold(out, probabilities[0]);
    issue_p_v(slot);
    ptx::wgmma_wait<0>();
    hold(out, probabilities[0]);
  }

  // Computes P of the job's tile into `fresh`. Returns whether `out` must be multiplied by
  // `correction`.
  template <Step kStep>
  ATTNJIT_DEVICE bool exponentiate(bool begins, int first_key, Fragments<1, kGroups>& scores,
                                   const KeptKeys<kShape>& kept, Probabilities<1, kGroups>& fresh,
                                   RowValues<1>& correction) {
    const auto correct = [&](int m, int h, float factor) { correction[m][h] = factor; };
    const ForwardParams& p = params.base;
    if constexpr (kStep == Step::kPlain && kInExponents) {
      features.begin_exponents(rows.block, first_key);
      return rows.softmax.step(
          begins, scores, fresh,
          ChangedExponents<Features, kShape, kConfig.scale_first>{features, rows.block, first_key,
                                                                  p.score_scale, p.exponent_scale},
          correct);
    } else {
      const float scale = features.transform(rows.block, scores, p.score_scale, first_key);
      features.begin_add(rows.block, first_key);
      const bool corrects = rows.softmax.step(
          begins, scores, fresh,
          SettledExponents<Features, kShape, kConfig.scale_first, kStep != Step::kPlain>{
              features, kept, scale, p.exponent_scale},
          correct);
      maxima.see(rows_index, scores);
      return corrects;
    }
  }
  // Makes `fresh` the operand of the next P V. The copy is an operation: otherwise the compiler
  // lets both sets of probabilities share registers and waits for the product that reads one set
  // before it writes the other (ptxas, C7513).
  ATTNJIT_DEVICE void hand_on(const Probabilities<1, kGroups>& fresh) {
#pragma unroll
    for (int n = 0; n < kGroups; ++n) {
#pragma unroll
      for (int h = 0; h < 2; ++h) probabilities[0][n][h] = fresh[0][n][h] ^ params.zero;
    }
  }
  ATTNJIT_DEVICE void rescale(const RowValues<1>& correction) {
#pragma unroll
    for (int h = 0; h < 2; ++h) out.scale_row(0, h, correction[0][h]);
  }
  // Releases the current subtile of Q if the job before `next` was the last one that uses it and
  // `out` does not leave through its buffer.
  ATTNJIT_DEVICE void release_q(const ForwardJob& next) const {
    const bool last = !next.exists() || next.first();
    ptx::barrier_arrive_if(lane == 0 && last, shared.q_empty(subtile_of(query_state(rows_index))));
  }

  // The P V that the last step left; where the last tile was skipped, nothing reads it.
  ATTNJIT_DEVICE void end() {
    ptx::barrier_wait(shared.v_full(tile_state.slot()), tile_state.full());
    multiply_last(tile_state.slot());
    ptx::named_barrier_sync(4 + warpgroup + static_cast<int>(shared.team),
                            128);  // all its warps have read Q
    release_stored();
  }

  // Moves to the next block of rows.
  ATTNJIT_DEVICE void begin_rows() {
    const QueryState now = query_state(++rows_index);
    // With two buffers this Q may wait for the buffer that O of the rows before last leaves from.
    if constexpr (Shared::kQueries == 2) release_stored();
    ptx::barrier_wait(shared.q_full(subtile_of(now)), now.full());
    q = QTile::k_major(shared.q(now.slot(), warpgroup));
    const RowWorkTile work = shared.next_work(Shared::work_word(subtile_of(now)));
    rows.block =
        locate_rows<kConfig.block_q, kConfig.pack_gqa_heads()>(params.base, features, work);
    rows.split = work.split;
    rows.block.thread_row = rows.block.first_row + warp_row + ScoreShape(kShape).lane_row(lane);
    rows.block.thread_key = ScoreShape(kShape).lane_key(lane);
    rows.softmax.begin(params.base.exponent_scale);
    maxima.begin(rows_index);
    features.begin(rows.block);
  }
  template <Step kStep>
  ATTNJIT_DEVICE void fetch_operands() {
    if constexpr (kStep == Step::kPlain) {
      fetch(PlainTile());
    } else {
      fetch(TileUse::kMasked);
    }
  }
  // A tile past the last one has no operands; any value will do, because its keys are dropped.
  template <class Use>
  ATTNJIT_DEVICE void fetch(Use use) {
    const int first_key = job.tile * kConfig.block_kv;
    const bool inside = first_key < params.base.seqlen_kv;
    features.fetch(rows.block, inside ? first_key : 0, use);
  }

  // The descriptor of the current rows. It is computed from a value that ptxas does not know: for a
  // subtile of Q with a single buffer ptxas would otherwise keep the descriptors of all its columns
  // through the loop, in registers that the products need (D256: 36, and 60 more R2UR a step).
  ATTNJIT_DEVICE KMajor<QTile> q_at_hand() const {
    if constexpr (Shared::kQSubtiles > kWarpgroups) return q;
    const uint32 buffer = shared.q(query_state(rows_index).slot(), warpgroup);
    return QTile::k_major(ptx::opaque(buffer));
  }
  // out += P [V | 1], or = where `out` holds nothing yet. The last columns are the sums of rounded
  // probabilities, by which `out` is divided. The ones follow the last 64 columns of V at a
  // distance that is part of the descriptor, so that the same 16 rows of ones serve all rows of V.
  static constexpr int kFirst = kConfig.first_columns() / 8;  // groups of the first product
  static constexpr bool kBehindV = kFirst < kConfig.out_columns() / 8;
  // The increment of a descriptor whose tile lies 16 bytes further on, and its ones 16 bytes
  // nearer.
  static constexpr uint64 kNearer = kBehindV ? 1 - (1ull << 16) : 0;
  ATTNJIT_DEVICE uint64 describe_ones() const {
    if constexpr (!kBehindV) return ptx::matrix_descriptor(shared.ones(), 16, VTile::kGroupBytes);
    const uint32 slab = shared.v(0) + VTile::columns_on(8 * kFirst);
    return ptx::matrix_descriptor(slab, static_cast<int>(shared.ones() - slab), VTile::kGroupBytes);
  }
  ATTNJIT_DEVICE void issue_p_v(uint32 slot) {
    ptx::wgmma_fence();
    multiply_p_v(slot);
    ptx::wgmma_commit();
  }
  ATTNJIT_DEVICE void multiply_p_v(uint32 slot) {
    const MnMajor<VTile> tile = v.of_buffer(slot);
    const uint64 ones = ones_descriptor + slot * (VTile::kBytes / 16 * kNearer);
    auto& first = reinterpret_cast<float(&)[kFirst == 0 ? 1 : kFirst][4]>(out[0]);
    auto& last = reinterpret_cast<float(&)[kSummedGroups - kFirst][4]>(out[0][kFirst]);
#pragma unroll
    for (int i = 0; i < kConfig.block_kv / 16; ++i) {
      const auto& p = operand_step(probabilities[0], i);
      constexpr uint64 kRows = VTile::rows_on(16) / 16;
      if constexpr (kFirst > 0) {
        ptx::multiply_async<kConfig.dtype>(first, p, tile.step(i), adds || i != 0);
      }
      ptx::multiply_async<kConfig.dtype>(last, p, ones + i * kRows * kNearer, adds || i != 0);
    }
  }
};

}  // namespace attnjit::kernel
