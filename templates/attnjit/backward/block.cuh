#pragma once
#include "attnjit/backward/params.h"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/score/gradient_feature.cuh"
#include "attnjit/score/score_shape.h"
#include "attnjit/tile/live_rows.cuh"
#include "attnjit/tile/tile_use.h"

// The place of a thread block of the backward, whichever its main loop.
namespace attnjit::kernel {

// A batch element, one of its heads and a tile of queries, as seen by the warps of `TheTeam`, which
// call the functions together.
template <ScoreShape kShape, class Features, class TheTeam>
struct BackwardBlock {
  using Team = TheTeam;
  static constexpr int kBlockQ = kShape.block_q;
  static constexpr int kBlockKv = kShape.block_kv;
  static constexpr int kGqaRatio = kShape.gqa_ratio;
  static constexpr bool kPacksSequences = Features::kPacksSequences;

  const BackwardParams& params;
  Features features;
  Block block;
  int known;             // the group of 32 tiles that is looked up, or -1
  uint32 some, partial;  // its tiles with a kept key, and those that need the mask

  ATTNJIT_DEVICE BackwardBlock(const BackwardParams& p, const Features& f)
      : params(p), features(f), known(-1), some(0), partial(0) {}

  template <class T>
  ATTNJIT_DEVICE static T* head_of(T* base, const RowStrides& strides, int batch, int head) {
    return base + batch * strides.batch + head * strides.head;
  }
  // The first row of a query head, or the first key of the current kv head.
  template <class T>
  ATTNJIT_DEVICE T* query_rows(T* base, const RowStrides& strides, int head) const {
    return rows_of(head_of(base, strides, block.tensor_batch, head), strides, block.q_begin);
  }
  template <class T>
  ATTNJIT_DEVICE T* key_rows(T* base, const RowStrides& strides) const {
    return rows_of(head_of(base, strides, block.tensor_batch, kv_head()), strides, block.kv_begin);
  }
  // Rows of a packed sequence, of which `begin` is the first. Otherwise that is 0, which the
  // compiler learns too late to order its sums as if nothing were added.
  template <class T>
  ATTNJIT_DEVICE static T* rows_of(T* head, const RowStrides& strides, int begin) {
    if constexpr (kPacksSequences) return head + begin * strides.row;
    return head;
  }
  ATTNJIT_DEVICE int kv_head() const { return block.head / kGqaRatio; }

  // Turns to a batch element, then to one of its query heads.
  ATTNJIT_DEVICE void enter_batch(int batch, int head) {
    block.enter(batch, params.seqlen_q, params.seqlen_kv);
    block.thread_key = ScoreShape(kShape).lane_key(ptx::lane_index());
    features.set_lengths(block);
    block.num_rows = block.seqlen_q;
    enter_head(head);
  }
  ATTNJIT_DEVICE void enter_head(int head) {
    block.head = head;
    features.begin(block);
  }
  ATTNJIT_DEVICE static void set_rows(Block& block, int q_tile) {
    block.first_row = block.first_query = q_tile * kBlockQ;
    const int end = block.first_row + kBlockQ;
    block.end_row = block.end_query = end < block.query_len ? end : block.query_len;
  }

  // The use of tile `index` of a walk, which use_of(index) computes. Each lane asks for one of 32
  // tiles, so that their latencies are paid together; two votes make bits of the answers.
  template <class UseOf>
  ATTNJIT_DEVICE TileUse look_up(int index, UseOf use_of) {
    if (index / 32 != known) {
      known = index / 32;
      const TileUse use = use_of(known * 32 + ptx::lane_index());
      some = ptx::warp_ballot(use != TileUse::kSkip);
      partial = ptx::warp_ballot(use == TileUse::kMasked);
    }
    const uint32 bit = 1u << (index & 31);
    if ((some & bit) == 0) return TileUse::kSkip;
    return (partial & bit) != 0 ? TileUse::kMasked : TileUse::kPlain;
  }

  // The keys that queries of the tile may see, mask aside.
  ATTNJIT_DEVICE KeyRange keys_of(int q_tile) {
    Block rows = block;
    set_rows(rows, q_tile);
    return keys_of(rows);
  }
  // The keys that any query of the head may see, mask aside.
  ATTNJIT_DEVICE KeyRange keys_of_head() {
    Block rows = block;
    rows.first_row = rows.first_query = 0;
    rows.end_row = rows.end_query = block.query_len;
    return keys_of(rows);
  }
  ATTNJIT_DEVICE KeyRange keys_of(const Block& rows) {
    KeyRange keys = {0, block.kv_len};
    features.narrow(Team(), rows, keys);
    return keys;
  }

  // The rows of a query head in the arrays that the kernels of the backward hand to each other: the
  // first one, and how many there are.
  struct PaddedRows {
    int64 first;
    int count;
  };
  ATTNJIT_DEVICE PaddedRows padded_rows_of(int head) const {
    const int64 plane = static_cast<int64>(block.tensor_batch) * params.num_heads_q + head;
    const int64 first = plane * params.padded_rows;
    if constexpr (kPacksSequences) return {first + block.padded_begin, block.padded_rows};
    return {first, params.padded_rows};
  }
  // Tiles of queries that a head has.
  ATTNJIT_DEVICE int num_q_tiles() const {
    if constexpr (kPacksSequences) return ceil_div(block.query_len, kBlockQ);
    return params.num_q_tiles;
  }

  ATTNJIT_DEVICE LiveRowsOf<kBlockQ> load_live(int head, int q_tile) const {
    const int64 plane = static_cast<int64>(block.tensor_batch) * params.num_heads_q + head;
    int words = params.padded_rows / 32;
    int64 first = plane * words;
    if constexpr (kPacksSequences) {
      words = block.padded_rows / 32;
      first += block.padded_begin / 32;
    }
    LiveRowsOf<kBlockQ> live;
#pragma unroll
    for (int i = 0; i < ceil_div(kBlockQ, 32); ++i) {
      const int word = q_tile * (kBlockQ / 32) + i;
      if (word < words) live.set(i, ptx::load_global_written(params.rows.live + first + word));
    }
    return live;
  }
};

}  // namespace attnjit::kernel
