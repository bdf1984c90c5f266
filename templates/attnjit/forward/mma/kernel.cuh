#pragma once
#include "attnjit/forward/mma/tiles.cuh"
#include "attnjit/forward/softmax.cuh"
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/matrix.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/tile/fragments.cuh"
#include "attnjit/tile/key_order.h"
#include "attnjit/tile/row_maxima.cuh"

// The portable forward: out = softmax(scale q k^T + features) v for every GPU from sm_80 on,
// with mma.sync, ldmatrix and cp.async.
//
//   q   [batch, Hq,  Lq, D ]      out [batch, Hq, Lq, Dv]
//   k   [batch, Hkv, Lk, D ]      lse [batch, Hq, Lq]
//   v   [batch, Hkv, Lk, Dv]
//
// One thread block computes block_q rows of one head (or of the query heads of one kv head, see
// pack_gqa) and walks over its share of the keys in tiles:
//
//                 block_kv keys ->
//              +------+------+------+----          each warp owns 16 row_tiles() rows;
//    warp 0    |      |      |      |              its scores, probabilities and output
//    warp 1    |  S = Q K^T, tile by tile          stay in its registers
//    ...       |      |      |      |
//              +------+------+------+----
//
// Q is read again for each tile; K and V are streamed by cp.async (forward/mma/tiles.cuh).
namespace attnjit::kernel {

template <ForwardMmaConfig kConfig, class Features, ScoreShape kShape = kConfig.scores()>
struct Forward : ForwardTiles<kConfig, Features, kShape> {
  static_assert(why_invalid(kConfig) == nullptr, "why_invalid(config) in forward/mma/config.h");
  using Base = ForwardTiles<kConfig, Features, kShape>;
  using Base::Base;
  using Base::block, Base::features, Base::params;
  using Base::k_tile, Base::out_tile, Base::q_tile, Base::v_tile;
  using Base::kHeads, Base::kPacked, Base::kRowTiles, Base::kStages, Base::kThreads;
  using Base::load_k, Base::load_q, Base::load_v, Base::row_address;
  using Base::locate, Base::look_ahead, Base::next_job, Base::split;
  using typename Base::Job, typename Base::KTile, typename Base::VTile;
  static constexpr int kGroups = kConfig.block_kv / 8;                // of 8 keys
  static constexpr int kOutGroups = kConfig.padded_head_dim_v() / 8;  // of 8 columns
  static constexpr bool kRunningMax = kConfig.softmax == SoftmaxPolicy::kRunningMax;
  // The product with V has 8 more columns, of ones, which sum up the rounded probabilities: `out`
  // is divided by these sums. With a running maximum the largest probability of a row is 1, which
  // rounding does not change, so the sums of the softmax serve.
  static constexpr int kSummedGroups = kOutGroups + (kRunningMax ? 0 : 1);

  typename SoftmaxOf<kConfig.softmax, kConfig.dtype, kRowTiles>::Type softmax;
  [[no_unique_address]] RowMaxima<Features::kKeepsMaxima && !kRunningMax, kRowTiles> maxima;
  Fragments<kRowTiles, kSummedGroups> out;

  ATTNJIT_DEVICE void run() {
    locate();
    if (kPacked && block.first_row >= block.num_rows) return;
    look_ahead();
    load_q();  // joins the first group of copies
    softmax.begin(params.exponent_scale);
    maxima.begin();
    out = 0.0f;
    if constexpr (kStages == 1) {
      walk_alternating();
    } else {
      walk_ring();
    }
    if (params.num_splits == 1) {
      write();
    } else {
      write_partial();
    }
  }

 private:
  // scores = Q K^T
  ATTNJIT_DEVICE void multiply_q_k(Fragments<kRowTiles, kGroups>& scores, const KTile& tile) {
    const int lane = ptx::lane_index();
    const int q_row = ptx::warp_index() * 16 * kRowTiles + (lane & 15);
    scores = 0.0f;
#pragma unroll
    for (int depth = 0; depth < kConfig.padded_head_dim() / 16; ++depth) {
      ptx::FragmentA a[kRowTiles];
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        a[m] = ptx::load_fragment_a(q_tile().address(q_row + 16 * m, 2 * depth ^ (lane >> 4)));
      }
#pragma unroll
      for (int n = 0; n < kGroups; n += 2) {
        const int row = KeyOrder::row(n, lane & 7) + 2 * (lane >> 4);
        const ptx::FragmentBPair b =
            ptx::load_fragment_b(tile.address(row, 2 * depth ^ (lane >> 3 & 1)));
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) {
          ptx::multiply_accumulate<kConfig.dtype>(scores[m][n], a[m], b.word[0]);
          ptx::multiply_accumulate<kConfig.dtype>(scores[m][n + 1], a[m], b.word[1]);
        }
      }
    }
  }

  // out += P [V | 1]. Probabilities are laid out as an operand already: two column groups of S are
  // the 16 columns of one A fragment.
  ATTNJIT_DEVICE void multiply_p_v(const Probabilities<kRowTiles, kGroups>& p, const VTile& tile) {
    const int lane = ptx::lane_index();
#pragma unroll
    for (int n = 0; n < kGroups; n += 2) {
      ptx::FragmentA a[kRowTiles];
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        a[m] = {p[m][n][0], p[m][n][1], p[m][n + 1][0], p[m][n + 1][1]};
      }
      if constexpr (!kRunningMax) {
        constexpr uint32 kOnes[2] = {pair_of_ones(kConfig.dtype), pair_of_ones(kConfig.dtype)};
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) {
          ptx::multiply_accumulate<kConfig.dtype>(out[m][kOutGroups], a[m], kOnes);
        }
      }
      const int row = KeyOrder::row(n, lane & 7) + 2 * (lane >> 3 & 1);
#pragma unroll
      for (int column = 0; column < kOutGroups; column += 2) {
        const ptx::FragmentBPair b =
            ptx::load_fragment_b_transposed(tile.address(row, column ^ (lane >> 4)));
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) {
          ptx::multiply_accumulate<kConfig.dtype>(out[m][column], a[m], b.word[0]);
          ptx::multiply_accumulate<kConfig.dtype>(out[m][column + 1], a[m], b.word[1]);
        }
      }
    }
  }

  // Computes the tile in `slot`; before_v() runs between the two products.
  template <class BeforeV>
  ATTNJIT_DEVICE void attend(const Job& job, int slot, BeforeV before_v) {
    const int first_key = job.tile * kConfig.block_kv;
    Fragments<kRowTiles, kGroups> scores;
    features.fetch(block, first_key, job.use);
    multiply_q_k(scores, k_tile(slot));
    before_v();
    const float scale = kConfig.scale_first ? params.score_scale : 1.0f;
    const float left = features.transform(block, scores, scale, first_key);
    features.add(block, scores, left, first_key);
    if (job.use == TileUse::kMasked) features.mask(block, scores, first_key);
    maxima.see(scores);
    Probabilities<kRowTiles, kGroups> probabilities;
    softmax.step(scores, probabilities, params.exponent_scale,
                 [&](int m, int h, float correction) { out.scale_row(m, h, correction); });
    multiply_p_v(probabilities, v_tile(slot));
  }

  // One buffer each for K and V: V streams in while S is computed, the next K under P V.
  ATTNJIT_DEVICE void walk_alternating() {
    Job job = next_job();
    load_k(0, job);
    ptx::copy_async_commit();
    look_ahead();
    while (job.exists()) {
      ptx::copy_async_wait<0>();
      ptx::block_sync();  // K has arrived; all warps have read the previous V
      load_v(0, job);
      ptx::copy_async_commit();
      const Job next = next_job();
      attend(job, 0, [&] {
        ptx::copy_async_wait<0>();
        ptx::block_sync();  // V has arrived; all warps have read this K
        load_k(0, next);
        ptx::copy_async_commit();
        look_ahead();
      });
      job = next;
    }
  }

  // A ring of kStages tiles of K and V, kStages - 1 of them ahead; each tile is one group of
  // copies.
  ATTNJIT_DEVICE void walk_ring() {
    Job jobs[kStages];  // jobs[0] is computed, the others are being loaded
#pragma unroll
    for (int s = 0; s < kStages - 1; ++s) {
      jobs[s] = next_job();
      load_k(s, jobs[s]);
      load_v(s, jobs[s]);
      ptx::copy_async_commit();
      look_ahead();
    }
    for (int slot = 0; jobs[0].exists(); slot = slot + 1 == kStages ? 0 : slot + 1) {
      ptx::copy_async_wait<kStages - 2>();
      ptx::block_sync();  // this tile has arrived; all warps have read the previous one
      const int freed = slot == 0 ? kStages - 1 : slot - 1;
      jobs[kStages - 1] = next_job();
      load_k(freed, jobs[kStages - 1]);
      load_v(freed, jobs[kStages - 1]);
      ptx::copy_async_commit();
      look_ahead();
      attend(jobs[0], slot, [] {});
#pragma unroll
      for (int s = 0; s + 1 < kStages; ++s) jobs[s] = jobs[s + 1];
    }
  }

  // The index of a row in arrays of a number per row and split.
  ATTNJIT_DEVICE int64 split_slot(const RowOwner& owner) const {
    return lse_index<kPacked>(params, block, owner) * params.num_splits + split();
  }

  // Closes a row, and writes its largest score if the config has row_max.
  ATTNJIT_DEVICE ClosedRow close_row(int m, int h) {
    const float scale = kConfig.scale_first ? 1.0f : params.score_scale;
    RowState state = softmax.finish(m, h, scale);
    if constexpr (!kRunningMax) state.divisor = out[m][kOutGroups][2 * h];
    const ClosedRow row = kernel::close_row<kHeads>(features, block, state, 16 * m + 8 * h);
    if constexpr (Features::kKeepsMaxima) {
      if constexpr (!kRunningMax) {
        state.max = maxima.of(m, h) * scale;
      }
      features.write_max(features, block, row.owner, state, split_slot(row.owner));
    }
    return row;
  }

  // Writes out and lse. The rows are staged in shared memory for 16-byte stores.
  ATTNJIT_DEVICE void write() {
    ptx::copy_async_wait<0>();
    ptx::block_sync();  // all warps have read Q, which O overwrites
    const int lane = ptx::lane_index();
    const int warp_row = ptx::warp_index() * 16 * kRowTiles + lane / 4;
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        ClosedRow row = close_row(m, h);
        features.close(block, row);
        if (params.lse != nullptr && (lane & 3) == 0 && row.owner.query < block.seqlen_q) {
          ptx::store_global(params.lse + lse_index<kPacked>(params, block, row.owner), row.lse);
        }
#pragma unroll
        for (int n = 0; n < kOutGroups; ++n) {
          ptx::store_shared_4(out_tile().address(warp_row + 16 * m + 8 * h, n) + 4 * (lane & 3),
                              ptx::pack<kConfig.dtype>(row.scaled(out[m][n][2 * h]),
                                                       row.scaled(out[m][n][2 * h + 1])));
        }
      }
    }
    ptx::block_sync();  // O is complete
    store_tile<kConfig.aligned, kConfig.head_dim_v, kThreads>(
        out_tile(), row_address(static_cast<uint16*>(params.out), params.out_strides),
        block.num_rows - block.first_row);
  }

  // Writes this split's results of its rows, in fp32.
  ATTNJIT_DEVICE void write_partial() {
    ptx::let_next_kernel_begin();
    const int lane = ptx::lane_index();
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        ClosedRow row = close_row(m, h);
        if (row.owner.query >= block.seqlen_q) continue;
        if (split() == 0) features.close(block, row);
        const int64 slot = split_slot(row.owner);
        if ((lane & 3) == 0) ptx::store_global(params.partial_lse + slot, row.lse);
        float* target = params.partial_out + slot * kConfig.padded_head_dim_v() + 2 * (lane & 3);
#pragma unroll
        for (int n = 0; n < kOutGroups; ++n) {
          ptx::store_global(reinterpret_cast<ptx::Vector8*>(target + 8 * n),
                            ptx::Vector8{ptx::as_bits(row.scaled(out[m][n][2 * h])),
                                         ptx::as_bits(row.scaled(out[m][n][2 * h + 1]))});
        }
      }
    }
  }
};

template <ForwardMmaConfig kConfig, class... Features>
ATTNJIT_DEVICE void forward_mma(const ForwardParams& params, Features... features) {
  Forward<kConfig, FeatureSet<Features...>>(params, FeatureSet<Features...>(features...)).run();
}

}  // namespace attnjit::kernel
