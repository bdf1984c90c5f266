#pragma once
#include "attnjit/forward/params.h"
#include "attnjit/ptx/math.cuh"
#include "attnjit/score/block.cuh"
#include "attnjit/score/feature.cuh"
#include "attnjit/tile/schedule.cuh"
#include "attnjit/types.h"

// The rows of a forward, whichever its main loop: which ones a block of rows has, which keys they
// walk over, and what is left of a row in the end.
namespace attnjit::kernel {

// Address of a head of a tensor.
template <class T>
ATTNJIT_DEVICE T* head_of(T* base, const RowStrides& strides, int batch, int head) {
  return base + batch * strides.batch + head * strides.head;
}
// The same of a packed sequence, whose first row or key is `begin`. Otherwise that is 0, which the
// compiler learns too late to order its sums as if nothing were added.
template <bool kPacked, class T>
ATTNJIT_DEVICE T* rows_of(T* base, const RowStrides& strides, const Block& block, int head,
                          int begin) {
  T* const first = head_of(base, strides, block.tensor_batch, head);
  if constexpr (kPacked) return first + begin * strides.row;
  return first;
}

// A unit of scheduled work: a block of rows, and which share of its keys.
struct RowWorkTile {
  int batch, head;  // with pack_gqa the first one
  int q_tile, split;
};

// That of a work tile of a plane. Work tiles are its row tiles, each num_splits times. Later rows
// come first: under a causal mask they take longest. Of packed sequences warps call it whole.
template <int kBlockQ, int kHeads, class Features>
ATTNJIT_DEVICE RowWorkTile find_rows(const ForwardParams& params, const Features& features,
                                     const PlaneTile& work) {
  const int planes_per_batch = params.num_heads_q / kHeads;
  RowWorkTile tile = {static_cast<int>(work.plane / planes_per_batch),
                      static_cast<int>(work.plane % planes_per_batch) * kHeads,
                      params.num_q_tiles - 1 - static_cast<int>(work.tile / params.num_splits),
                      static_cast<int>(work.tile % params.num_splits)};
  tile.q_tile = features.template find_queries<kHeads>(tile.batch, tile.q_tile, kBlockQ);
  return tile;
}

// The block of rows of `tile`.
template <int kBlockQ, int kHeads, class Features>
ATTNJIT_DEVICE Block locate_rows(const ForwardParams& params, Features& features,
                                 const RowWorkTile& tile) {
  Block block;
  block.enter(tile.batch, params.seqlen_q, params.seqlen_kv);
  block.head = tile.head;
  features.set_lengths(block);
  block.num_rows = block.seqlen_q * kHeads;
  block.first_row = tile.q_tile * kBlockQ;
  const int rows_in_use = block.query_len * kHeads;
  const int end = block.first_row + kBlockQ;
  block.end_row = end < rows_in_use ? end : rows_in_use;
  block.first_query = block.first_row / kHeads;
  block.end_query = (block.end_row + kHeads - 1) / kHeads;
  return block;
}

// Tiles of keys, from the first to one past the last.
struct TileRange {
  int next, end;
};

// Those of a split of the tiles that hold `keys`.
ATTNJIT_DEVICE TileRange split_tiles(const KeyRange& keys, int block_kv, int num_splits,
                                     int split) {
  TileRange tiles{keys.begin / block_kv, (keys.end + block_kv - 1) / block_kv};
  if (num_splits > 1 && tiles.next < tiles.end) {
    const int share = (tiles.end - tiles.next + num_splits - 1) / num_splits;
    tiles.next += split * share;
    if (tiles.next + share < tiles.end) tiles.end = tiles.next + share;
  }
  return tiles;
}

// A row after its last tile: its owner, its state, and what its output is to be multiplied by.
struct ClosedRow {
  RowOwner owner;
  float keys_lse;  // of the keys alone; -inf for a dead row
  float lse;
  float inverse;  // of the keys' sum
  float share;    // of the keys in what is summed up; the product of the two may be subnormal
  ATTNJIT_DEVICE float scaled(float value) const {
    // A select, not a product with 0: the sum of a dead row may hold NaN.
    return keys_lse == -ptx::infinity() ? 0.0f : value * inverse * share;
  }
  // Whether the product of the two is all that scales a value: the row has keys, and it is normal.
  ATTNJIT_DEVICE bool has_factor() const {
    return keys_lse > -ptx::infinity() && inverse * share >= 0x1p-126f;
  }
};

// `row` is what the softmax knows of the row that is `distance` rows after the thread's first one.
template <int kHeads, class Features>
ATTNJIT_DEVICE ClosedRow close_row(Features& features, const Block& block, RowState row,
                                   int distance) {
  const RowOwner owner = owner_of<kHeads>(block, block.thread_row + distance);
  features.finish(block, owner, row);
  // A select, because a branch keeps a thread's rows from being closed side by side.
  const float live = fmaf(ptx::log2_approx(row.sum), kLn2, row.max);
  const float lse = row.sum == 0.0f ? -ptx::infinity() : live;
  return {owner, lse, lse, ptx::reciprocal_approx(row.divisor), 1.0f};
}

template <bool kPacked>
ATTNJIT_DEVICE int64 lse_index(const ForwardParams& params, const Block& block,
                               const RowOwner& owner) {
  if constexpr (kPacked) {
    return static_cast<int64>(owner.head) * params.seqlen_q + block.q_begin + owner.query;
  }
  return (static_cast<int64>(block.batch) * params.num_heads_q + owner.head) * block.seqlen_q +
         owner.query;
}

}  // namespace attnjit::kernel
