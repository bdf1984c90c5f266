#pragma once
#include "attnjit/forward/rows.cuh"
#include "attnjit/forward/softmax.cuh"
#include "attnjit/forward/wgmma/shared_bias_stages.cuh"
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/mbarrier.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/named_barrier.cuh"
#include "attnjit/ptx/shuffle.cuh"
#include "attnjit/ptx/store_if.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/ptx/warpgroup.cuh"
#include "attnjit/score/score_shape.h"
#include "attnjit/tile/quad_rows.cuh"
#include "attnjit/tile/slab_products.cuh"

namespace attnjit::kernel {

// A warpgroup that multiplies.
//
// Exponents are taken against the same reference in all rows, which suits most
// (GivenStartSoftmax). Where a warp finds that it does not, the consumer computes the element again
// against the largest scores of its keys: K and V are still there.
template <ForwardSharedBiasConfig kConfig, class Features, ScoreShape kShape = kConfig.scores()>
struct SharedBiasConsumer {
  static constexpr DType kDType = kConfig.dtype;
  static constexpr int kGroups = kConfig.share() / 8;
  static constexpr int kOutGroups = kConfig.kSlabColumns / 8;
  static constexpr int kConsumers = ForwardSharedBiasConfig::kConsumers;
  static constexpr int kMergers = 2;  // consumers that merge an element, each a half of its rows
  using Stages = SharedBiasStages<kConfig>;
  using State = typename Stages::State;
  using Output = Fragments<1, kOutGroups + 1>;  // the last group sums rounded probabilities up
  using Exact = RunningMaxSoftmax<kDType, 1>;
  using GivenStart = GivenStartSoftmax<kDType, 1>;

  // The softmax of the thread's rows over the consumer's keys: the number that is taken off
  // exponents, and the sums of probabilities before they are rounded.
  struct Rows {
    float reference[2], sum[2];
  };

  const ForwardSharedBiasParams& params;
  const ForwardParams& base;
  Features features;
  const int consumer;
  const int lane = ptx::lane_index();
  const int warp_row = 16 * (ptx::warp_index() & 3);
  const int first_key;
  Block block;
  Output out;

  ATTNJIT_DEVICE SharedBiasConsumer(const ForwardSharedBiasParams& p, const Features& f, int index)
      : params(p),
        base(p.base.base),
        features(f),
        consumer(index),
        first_key(index * kConfig.share()) {}

  ATTNJIT_DEVICE void run() {
    State state;
    Block before;  // of the previous element
    for (StripWalk walk(params); walk.exists(); walk.advance(), state.advance()) {
      enter(walk.work());
      if (walk.turns) features.hold_tile(block, first_key);
      ptx::barrier_wait(Stages::qk_full(state.slot()), state.full());
      leave(state.slot(), attend(state.slot(), state.full()));
      if (state.index != 0) finish(State{state.index - 1}, before);
      before = block;
    }
    if (state.index != 0) finish(State{state.index - 1}, before);
  }

 private:
  ATTNJIT_DEVICE void enter(const RowWorkTile& work) {
    block = locate_rows<kConfig.block_q, 1>(base, features, work);
    block.thread_row = block.first_row + warp_row + ScoreShape(kShape).lane_row(lane);
    block.thread_key = ScoreShape(kShape).lane_key(lane);
  }

  // Computes `out`.
  ATTNJIT_DEVICE Rows attend(uint32 slot, uint32 full) {
    Rows rows = compute<false>(slot, full);
    if (!every_warp(slot)) {
      rows = compute<true>(slot, full);
      ptx::named_barrier_sync(1 + consumer, 128);  // all its warps have multiplied
    }
    return rows;
  }
  // Whether every warp of the consumer has found its reference suitable. All of them have
  // multiplied then.
  ATTNJIT_DEVICE bool every_warp(uint32 slot) const {
    ptx::named_barrier_sync(1 + consumer, 128);
    const ptx::Vector16 suited = ptx::load_shared_16(Stages::suited(slot, consumer));
    const uint32 all = suited.word[0] & suited.word[1] & suited.word[2] & suited.word[3];
    return ptx::warp_broadcast(all, 0) != 0;
  }
  // Computes the probabilities and `out`, against the one reference or, kExact, the largest scores.
  template <bool kExact>
  ATTNJIT_DEVICE Rows compute(uint32 slot, uint32 full) {
    Fragments<1, kGroups> scores;
    hold(scores);
    ptx::wgmma_fence();
    mma_abt<kDType>(scores, Stages::QTile::k_major(Stages::q(slot)),
                    Stages::KTile::k_major(Stages::k(slot, consumer)));
    ptx::wgmma_commit();
    const ptx::Vector16 kept = ptx::load_shared_16(Stages::kept(slot, consumer));
    ptx::wgmma_wait<0>();
    hold(scores);
    // In log2 units, so that exponents are differences.
    features.add(block, scores, base.score_scale * kLog2E, first_key);
    drop(kept, scores);
    Probabilities<1, kGroups> probabilities;
    Rows rows;
    if constexpr (kExact) {
      Exact softmax;
      softmax.begin(1.0f);
      softmax.step(scores, probabilities, 1.0f, [](int, int, float) {});
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const RowState row = softmax.finish(0, h, 1.0f);
        rows.reference[h] = row.max;
        rows.sum[h] = row.sum;
      }
    } else {
      exponentiate(slot, scores, probabilities, rows);
    }
    ptx::barrier_wait(Stages::v_full(slot), full);
    multiply_p_v(slot, probabilities[0]);
    return rows;
  }
  // Drops the keys whose bits are 0, in the order of the rows of K, which is that of the columns of
  // the scores.
  ATTNJIT_DEVICE void drop(const ptx::Vector16& kept, Fragments<1, kGroups>& scores) const {
    uint32 all = ~0u, own[4];
#pragma unroll
    for (int i = 0; i < kGroups / 4; ++i) {
      all &= kept.word[i];
      own[i] = kept.word[i] >> (2 * (lane & 3));
    }
    if (all == ~0u) return;
    scores.for_each([&](float& score, int, int n, int e) {
      if ((own[n / 4] & 1u << (8 * (n % 4) + e % 2)) == 0) score = -ptx::infinity();
    });
  }
  // Against the reference of all rows. Leaves whether it suits those of the warp.
  ATTNJIT_DEVICE void exponentiate(uint32 slot, const Fragments<1, kGroups>& scores,
                                   Probabilities<1, kGroups>& probabilities, Rows& rows) const {
    bool suits = true;
    float total[2] = {};
#pragma unroll
    for (int n = 0; n < kGroups; ++n) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float low = ptx::exp2_approx(scores[0][n][2 * h] - GivenStart::kStart);
        const float high = ptx::exp2_approx(scores[0][n][2 * h + 1] - GivenStart::kStart);
        total[h] += low + high;
        probabilities[0][n][h] = ptx::pack<kDType>(low, high);
      }
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      rows.reference[h] = GivenStart::kStart;
      rows.sum[h] = ptx::quad_sum(total[h]);
      suits &=
          GivenStart::suited(GivenStart::kStart, total[h]) & (rows.sum[h] >= GivenStart::kLeast);
    }
    const uint32 all = ptx::warp_all(suits) ? 1u : 0u;
    if (lane == 0) {
      ptx::store_shared_4(Stages::suited(slot, consumer) + warp_row / 4, all);
    }
  }
  // out = P [V | 1]. The ones follow the columns of V at a distance that is part of the descriptor,
  // so that the same 16 rows of ones serve all rows of V.
  ATTNJIT_DEVICE void multiply_p_v(uint32 slot, uint32 (&p)[kGroups][2]) {
    using VTile = typename Stages::VTile;
    const uint32 v = Stages::v(slot, consumer);
    const uint64 first = ptx::matrix_descriptor<VTile::kLineBytes>(
        v, static_cast<int>(Stages::ones() - v), VTile::kGroupBytes);
    // The increment of a descriptor whose V lies 16 bytes further on, and its ones 16 bytes nearer.
    constexpr uint64 kNearer = 1 - (1ull << 16);
    hold(out, p);
    ptx::wgmma_fence();
#pragma unroll
    for (int i = 0; i < kGroups / 2; ++i) {
      ptx::multiply_async<kDType>(out[0], operand_step(p, i),
                                  first + i * (VTile::rows_on(16) / 16) * kNearer, i != 0);
    }
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
    hold(out, p);
  }

  // Leaves the consumer's part in the place of its K and V, which all its warps are done with.
  ATTNJIT_DEVICE void leave(uint32 slot, const Rows& rows) const {
    const int thread = ptx::thread_index() % 128;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if ((lane & 3) != 0) continue;
      ptx::store_shared_16(Stages::row(slot, consumer, warp_row + lane / 4 + 8 * h),
                           {{ptx::as_bits(rows.reference[h]), ptx::as_bits(rows.sum[h]),
                             ptx::as_bits(out[0][kOutGroups][2 * h]), 0}});
    }
#pragma unroll
    for (int n = 0; n < kOutGroups; ++n) {
      const float(&group)[4] = out[0][n];
      ptx::store_shared_16(Stages::part(slot, consumer, n, thread),
                           {{ptx::as_bits(group[0]), ptx::as_bits(group[1]), ptx::as_bits(group[2]),
                             ptx::as_bits(group[3])}});
    }
    ptx::warp_sync();  // all lanes have written
    ptx::barrier_arrive_if(lane == 0, Stages::parts_full(slot));
  }

  // Lets go of an element, once the consumers whose turn it is have merged and written it: while
  // others compute the next one.
  ATTNJIT_DEVICE void finish(const State& state, const Block& of) {
    const int turn = (consumer + static_cast<int>(state.index % kConsumers)) % kConsumers;
    if (turn < kMergers) {
      ptx::barrier_wait(Stages::parts_full(state.slot()), state.full());
      merge(state.slot(), of, turn);
      ptx::warp_sync();  // all lanes have read the parts
    }
    ptx::barrier_arrive_if(lane == 0, Stages::empty(state.slot()));
  }
  // Merges and writes row h of each of the warp's threads.
  ATTNJIT_DEVICE void merge(uint32 slot, const Block& of, int h) {
    const int thread = ptx::thread_index() % 128;
    float reference[kConsumers], sum[kConsumers], divisor[kConsumers];
    float highest = -ptx::infinity();
#pragma unroll
    for (int c = 0; c < kConsumers; ++c) {
      const ptx::Vector16 row =
          ptx::load_shared_16(Stages::row(slot, c, warp_row + lane / 4 + 8 * h));
      reference[c] = ptx::as_float(row.word[0]);
      sum[c] = ptx::as_float(row.word[1]);
      divisor[c] = ptx::as_float(row.word[2]);
      highest = fmaxf(highest, reference[c]);
    }
    // A dead row has no reference: -inf - -inf would be NaN.
    const float origin = highest == -ptx::infinity() ? 0.0f : highest;
    RowState state{highest * kLn2, 0.0f, 0.0f};
    float merged[kOutGroups][2] = {};
#pragma unroll
    for (int c = 0; c < kConsumers; ++c) {
      const float weight = ptx::exp2_approx(reference[c] - origin);
      state.sum = fmaf(sum[c], weight, state.sum);
      state.divisor = fmaf(divisor[c], weight, state.divisor);
#pragma unroll
      for (int n = 0; n < kOutGroups; ++n) {
        const ptx::Vector8 part = ptx::load_shared_8(Stages::part(slot, c, n, thread) + 8 * h);
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          merged[n][e] = fmaf(ptx::as_float(part.word[e]), weight, merged[n][e]);
        }
      }
    }
    ClosedRow closed = close_row<1>(features, of, state, 8 * h);
    features.close(of, closed);
    write(of, closed, merged);
  }

  // 16 bytes a lane.
  ATTNJIT_DEVICE void write(const Block& of, const ClosedRow& closed,
                            const float (&merged)[kOutGroups][2]) const {
    const RowOwner& owner = closed.owner;
    const bool inside = owner.query < of.seqlen_q;
    ptx::store_global_if(base.lse != nullptr && (lane & 3) == 0 && inside,
                         base.lse + lse_index<false>(base, of, owner), closed.lse);
    uint16* const row =
        head_of(static_cast<uint16*>(base.out), base.out_strides, of.tensor_batch, of.head) +
        owner.query * base.out_strides.row + 8 * (lane & 3);
#pragma unroll
    for (int n = 0; n < kOutGroups; n += 4) {
      uint32 word[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        word[i] =
            ptx::pack<kDType>(closed.scaled(merged[n + i][0]), closed.scaled(merged[n + i][1]));
      }
      gather_group(word);
      ptx::store_global_if(inside && 8 * n + 8 * (lane & 3) < kConfig.head_dim_v,
                           reinterpret_cast<ptx::Vector16*>(row + 8 * n),
                           {{word[0], word[1], word[2], word[3]}});
    }
  }
};

}  // namespace attnjit::kernel
