#pragma once
#include "attnjit/forward/rows.cuh"
#include "attnjit/forward/softmax.cuh"
#include "attnjit/forward/wgmma/shared.cuh"
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/store_if.cuh"
#include "attnjit/ptx/store_matrix.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/tensor_copy.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/ptx/warpgroup.cuh"
#include "attnjit/tile/fragments.cuh"
#include "attnjit/tile/quad_rows.cuh"
#include "attnjit/tile/row_maxima.cuh"

namespace attnjit::kernel {

// The epilogue of a consumer of the Hopper forward: it writes O and lse of rows whose tiles are
// done, or a split's partial results.
template <ForwardWgmmaConfig kConfig, class Features>
struct ForwardEpilogue {
  static constexpr int kOutGroups = kConfig.out_columns() / 8;  // of 8 columns
  static constexpr int kSummedGroups = kConfig.summed_columns() / 8;
  static constexpr bool kPacked = Features::kPacksSequences;
  static constexpr uint32 kNothingStored = ~0u;
  using Shared = ForwardShared<kConfig>;
  using OutTile = typename Shared::OutTile;
  using Softmax = GivenStartSoftmax<kConfig.dtype, 1>;

  // The current rows.
  struct Rows {
    Block block;
    int split;  // of their keys
    Softmax softmax;
  };

  const ForwardWgmmaParams& params;
  Features features;
  Shared shared;
  const int warpgroup;  // among the consumers
  const int lane = ptx::lane_index();
  const int warp_row;  // of the warp's 16 rows in a block of rows
  const SharedRowMaxima<kConfig.row_max, kConfig.maxima_pitch()> maxima;
  Fragments<1, kSummedGroups> out;  // the last group has the sums of rounded probabilities
  uint32 stored = kNothingStored;   // the buffer of Q that a store of the warp may still read

  ATTNJIT_DEVICE ForwardEpilogue(const ForwardWgmmaParams& p, const Features& f, int group)
      : params(p),
        features(f),
        warpgroup(group),
        warp_row(64 * group + 16 * (ptx::warp_index() & 3)),
        maxima{shared.maxima(ptx::thread_index() - 128)} {}

  // Releases the buffer of Q from which the previous rows have been stored.
  ATTNJIT_DEVICE void release_stored() {
    if constexpr (!kConfig.stages_out()) return;
    ptx::tensor_store_wait_read();
    ptx::barrier_arrive_if(stored != kNothingStored && lane == 0,
                           shared.q_empty(Shared::q_subtile(stored, warpgroup)));
    stored = kNothingStored;
  }

  // Writes `out` and lse of the rows of index `rows_index`, and their largest scores if the config
  // has row_max.
  ATTNJIT_DEVICE void write(Rows& closing, uint32 slot, uint32 rows_index) {
    const ForwardParams& p = params.base;
    ClosedRow closed[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float scale = kConfig.scale_first ? 1.0f : p.score_scale;
      RowState state = closing.softmax.finish(0, h, scale);
      state.divisor = out[0][kOutGroups][2 * h];
      closed[h] = close_row<kConfig.pack_gqa_heads()>(features, closing.block, state, 8 * h);
      if constexpr (kConfig.row_max) {
        state.max = maxima.of(rows_index, h) * scale;
        features.write_max(features, closing.block, closed[h].owner, state,
                           split_slot(closing, closed[h].owner));
      }
      if (closing.split == 0) features.close(closing.block, closed[h]);
    }
    find_factors(closed);
    if (p.num_splits > 1) {
      write_partial(closing, closed);
    } else {
      write_lse(closing.block, closed);
      if constexpr (!kConfig.stages_out()) write_out(closing.block, closed);
    }
    if constexpr (kConfig.stages_out()) {
      if (p.num_splits == 1) {
        // The warp's rows past the end of a packed sequence belong to another sequence.
        if (kPacked && closing.block.first_row + warp_row + 16 > closing.block.num_rows) {
          write_out(closing.block, closed);
        } else {
          stage_out(closing.block, slot);
        }
      }
      stored = slot;
    }
  }

 private:
  float factor[2];  // of `out` in a thread's rows

  // Scales rows at once that have no single factor, which few warps have, so that others multiply
  // each value once and select none.
  ATTNJIT_DEVICE void find_factors(const ClosedRow (&closed)[2]) {
    const bool simple = ptx::warp_all(closed[0].has_factor() && closed[1].has_factor());
#pragma unroll
    for (int h = 0; h < 2; ++h) factor[h] = simple ? closed[h].inverse * closed[h].share : 1.0f;
    if (simple) return;
#pragma unroll
    for (int n = 0; n < kOutGroups; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) out[0][n][e] = closed[e / 2].scaled(out[0][n][e]);
    }
  }
  ATTNJIT_DEVICE void write_lse(const Block& block, const ClosedRow (&closed)[2]) const {
    float* const lse = params.base.lse;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const RowOwner& owner = closed[h].owner;
      ptx::store_global_if(lse != nullptr && (lane & 3) == 0 && owner.query < block.seqlen_q,
                           lse + lse_index<kPacked>(params.base, block, owner), closed[h].lse);
    }
  }
  // Writes the warp's rows of O over its rows of Q, which its warpgroup has read, and starts their
  // store.
  ATTNJIT_DEVICE void stage_out(const Block& block, uint32 slot) {
    const uint32 rows_of_warp = shared.q_buffer(slot) + OutTile::rows_on(warp_row);
    const uint32 line = rows_of_warp + OutTile::rows_on(lane & 15);
#pragma unroll
    for (int n = 0; n < kOutGroups; n += 2) {
      uint32 word[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) word[i] = packed(n + i / 2, i & 1);
      const uint32 chunk = (n & 7) + (lane >> 4);
      ptx::store_matrices(line + n / 8 * OutTile::kSlabBytes + ((chunk ^ (lane & 7)) << 4), word);
    }
    ptx::fence_async_proxy();
    ptx::warp_sync();  // all lanes have written
#pragma unroll
    for (int slab = 0; slab < OutTile::kSlabs; ++slab) {
      ptx::tensor_store_if(lane == 0, params.out, rows_of_warp + slab * OutTile::kSlabBytes,
                           64 * slab, block.q_begin + block.first_row + warp_row, block.head,
                           block.tensor_batch);
    }
    ptx::tensor_store_commit();
  }
  // Writes 16 bytes a lane.
  ATTNJIT_DEVICE void write_out(const Block& block, const ClosedRow (&closed)[2]) const {
    const ForwardParams& p = params.base;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const auto& [query, head] = closed[h].owner;
      uint16* const row =
          rows_of<kPacked>(static_cast<uint16*>(p.out), p.out_strides, block, head, block.q_begin) +
          query * p.out_strides.row + 8 * (lane & 3);
#pragma unroll
      for (int n = 0; n < kOutGroups; n += 4) {
        uint32 a[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) a[i] = packed(n + i, h);
        gather_group(a);
        const bool inside = query < block.seqlen_q && 8 * n + 8 * (lane & 3) < kConfig.head_dim_v;
        ptx::store_global_if(inside, reinterpret_cast<ptx::Vector16*>(row + 8 * n),
                             {{a[0], a[1], a[2], a[3]}});
      }
    }
  }
  // The index of a row in arrays of a number per row and split.
  ATTNJIT_DEVICE int64 split_slot(const Rows& of, const RowOwner& owner) const {
    return lse_index<kPacked>(params.base, of.block, owner) * params.base.num_splits + of.split;
  }
  // Writes a split's results of its rows, in fp32.
  ATTNJIT_DEVICE void write_partial(const Rows& closing, const ClosedRow (&closed)[2]) const {
    const ForwardParams& p = params.base;
    constexpr int kColumns = round_up(kConfig.head_dim_v, 16);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const RowOwner& owner = closed[h].owner;
      const bool inside = owner.query < closing.block.seqlen_q;
      const int64 slot = split_slot(closing, owner);
      ptx::store_global_if(inside && (lane & 3) == 0, p.partial_lse + slot, closed[h].lse);
      float* const target = p.partial_out + slot * kColumns + 2 * (lane & 3);
#pragma unroll
      for (int n = 0; n < kColumns / 8; ++n) {
        ptx::store_global_if(inside, reinterpret_cast<ptx::Vector8*>(target + 8 * n),
                             {{ptx::as_bits(factor[h] * out[0][n][2 * h]),
                               ptx::as_bits(factor[h] * out[0][n][2 * h + 1])}});
      }
    }
  }
  // The two columns of group n in row h.
  ATTNJIT_DEVICE uint32 packed(int n, int h) const {
    return ptx::pack<kConfig.dtype>(factor[h] * out[0][n][2 * h], factor[h] * out[0][n][2 * h + 1]);
  }
};

}  // namespace attnjit::kernel
