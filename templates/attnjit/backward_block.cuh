#pragma once
#include "attnjit/backward_params.h"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/score/gradient_feature.cuh"
#include "attnjit/score/score_shape.h"
#include "attnjit/tile/live_rows.cuh"
#include "attnjit/tile/schedule.cuh"
#include "attnjit/tile/tile_use.h"

// Where a thread block of the backward stands, and which tiles it works on, whichever its main
// loop.
namespace attnjit::kernel {

// A batch element, one of its heads and a tile of queries, as seen by the warps of `TheTeam`, which
// call the functions together.
template <ScoreShape kShape, class Features, class TheTeam>
struct BackwardBlock {
  using Team = TheTeam;
  static constexpr int kBlockQ = kShape.block_q;
  static constexpr int kBlockKv = kShape.block_kv;
  static constexpr int kGqaRatio = kShape.gqa_ratio;

  const BackwardParams& params;
  Features features;
  Block block;
  int known;          // the group of 32 tiles that is looked up, or -1
  uint32 some, part;  // its tiles with a kept key, and those that need the mask

  ATTNJIT_DEVICE BackwardBlock(const BackwardParams& p, const Features& f)
      : params(p), features(f), known(-1), some(0), part(0) {}

  template <class T>
  ATTNJIT_DEVICE static T* head_of(T* base, const RowStrides& strides, int batch, int head) {
    return base + batch * strides.batch + head * strides.head;
  }
  // The first row of a query head, or the first key of the kv head at hand.
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
    if constexpr (Features::kPacksSequences) return head + begin * strides.row;
    return head;
  }
  ATTNJIT_DEVICE int kv_head() const { return block.head / kGqaRatio; }

  // Turns to a batch element, then to one of its query heads.
  ATTNJIT_DEVICE void enter_batch(int batch, int head) {
    block.enter(batch, params.seqlen_q, params.seqlen_kv);
    block.thread_key = kShape.lane_key(ptx::lane_index());
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
      part = ptx::warp_ballot(use == TileUse::kMasked);
    }
    const uint32 bit = 1u << (index & 31);
    if ((some & bit) == 0) return TileUse::kSkip;
    return (part & bit) != 0 ? TileUse::kMasked : TileUse::kPlain;
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
    if constexpr (Features::kPacksSequences) return {first + block.padded_begin, block.padded_rows};
    return {first, params.padded_rows};
  }
  // Tiles of queries that a head has.
  ATTNJIT_DEVICE int num_q_tiles() const {
    if constexpr (Features::kPacksSequences) return ceil_div(block.query_len, kBlockQ);
    return params.num_q_tiles;
  }

  ATTNJIT_DEVICE LiveRows load_live(int head, int q_tile) const {
    const int64 plane = static_cast<int64>(block.tensor_batch) * params.num_heads_q + head;
    int words = params.padded_rows / 32;
    int64 first = plane * words;
    if constexpr (Features::kPacksSequences) {
      words = block.padded_rows / 32;
      first += block.padded_begin / 32;
    }
    LiveRows live;
#pragma unroll
    for (int i = 0; i < kBlockQ / 32; ++i) {
      const int word = q_tile * (kBlockQ / 32) + i;
      if (word < words) live.set(i, ptx::load_global(params.rows.live + first + word));
    }
    return live;
  }
};

// The walk of a thread block that keeps a tile of keys: over the tiles of queries of all heads that
// share it, or a part of them. `Base` is a BackwardBlock.
template <class Base>
struct KeyTileWalk : Base {
  using Base::Base;
  using Base::block, Base::features, Base::params;
  using Base::kBlockKv, Base::kBlockQ, Base::kGqaRatio;

  // A tile of queries to be worked on; none after the last.
  struct Job {
    int head, tile;
    TileUse use;  // what the mask says
    LiveRows live;
    ATTNJIT_DEVICE bool exists() const { return use != TileUse::kSkip; }
  };

  int kv_tile, first_head;
  int next_head, next_tile;         // of the block's share of (head, tile of queries) pairs
  int next_position, end_position;  // the same as numbers
  LiveRows looked_up;               // of the position that the lane has looked up

  // Finds the block's place. First keys usually come first: under a causal mask they take longest.
  ATTNJIT_DEVICE void locate() {
    const auto [plane, part] = find_plane_part(params, params.num_kv_tiles * params.num_splits);
    const int tile = static_cast<int>(part / params.num_splits);
    locate(plane, params.last_keys_first != 0 ? params.num_kv_tiles - 1 - tile : tile,
           static_cast<int>(part % params.num_splits));
  }
  // Turns to a tile of keys of a plane, and to a share of its queries.
  ATTNJIT_DEVICE void locate(uint32 plane, int tile, int split) {
    kv_tile = tile;
    const int kv_heads = params.num_heads_q / kGqaRatio;
    const bool batch_fastest = params.batch_fastest != 0;
    int batch = static_cast<int>(batch_fastest ? plane % params.batch : plane / kv_heads);
    const int kv_head = static_cast<int>(batch_fastest ? plane / params.batch : plane % kv_heads);
    first_head = kv_head * kGqaRatio;
    kv_tile = features.find_keys(batch, kv_tile, kBlockKv);
    this->enter_batch(batch, first_head);
    const int positions = kGqaRatio * this->num_q_tiles();
    const int share = (positions + params.num_splits - 1) / params.num_splits;
    next_position = split * share;
    next_head = first_head + (positions == 0 ? 0 : next_position / this->num_q_tiles());
    next_tile = positions == 0 ? 0 : next_position % this->num_q_tiles();
    end_position = next_position + share < positions ? next_position + share : positions;
  }

  // The use of the tile of queries at `position`; looks up its live rows as well.
  ATTNJIT_DEVICE TileUse use_of(int position) {
    if (position >= end_position) return TileUse::kSkip;
    const int head = first_head + position / this->num_q_tiles();
    const int tile = position % this->num_q_tiles();
    looked_up = this->load_live(head, tile);
    return looked_up.any() ? features.tile_use(block.batch, head, tile, kv_tile) : TileUse::kSkip;
  }
  // The next job; skip(head, tile) is told of each tile before it that has no kept score.
  template <class Skip>
  ATTNJIT_DEVICE Job next_job(Skip skip) {
    while (next_position < end_position) {
      Job job = {next_head, next_tile, TileUse::kSkip, {}};
      const int position = next_position++;
      if (++next_tile == this->num_q_tiles()) {
        next_tile = 0;
        ++next_head;
      }
      job.use = this->look_up(position, [&](int index) { return use_of(index); });
      const KeyRange seen = this->keys_of(job.tile);
      const int first_key = kv_tile * kBlockKv;
      if (job.exists() && seen.begin < first_key + kBlockKv && seen.end > first_key) {
        job.live = looked_up.template broadcast<kBlockQ>(position & 31);
        return job;
      }
      skip(job.head, job.tile);
    }
    return {0, 0, TileUse::kSkip, {}};
  }
};

// The walk of a thread block that keeps a tile of queries of one head: over the tiles of keys that
// they see. `Base` is a BackwardBlock.
template <class Base>
struct QueryTileWalk : Base {
  using Base::Base;
  using Base::block, Base::features, Base::params;
  using Base::kBlockKv, Base::kBlockQ, Base::kGqaRatio;

  // A tile of keys to be worked on; none after the last.
  struct Job {
    int tile;
    TileUse use;  // what the mask says
    ATTNJIT_DEVICE bool exists() const { return use != TileUse::kSkip; }
  };

  int q_tile_index;
  KeyRange keys;
  int next_tile, end_tile;

  // Finds the block's place. Later rows come first: under a causal mask they take longest.
  ATTNJIT_DEVICE void locate() {
    const uint32 tiles = params.num_q_tiles;
    // Planes are query heads here.
    const struct {
      uint32 section_planes, num_planes;
    } heads = {static_cast<uint32>(params.section_planes) * kGqaRatio,
               static_cast<uint32>(params.num_planes) * kGqaRatio};
    const auto [plane, part] = find_plane_part(heads, tiles);
    int batch = static_cast<int>(plane / params.num_heads_q);
    q_tile_index =
        features.template find_queries<1>(batch, static_cast<int>(tiles - 1 - part), kBlockQ);
    this->enter_batch(batch, static_cast<int>(plane % params.num_heads_q));
    this->set_rows(block, q_tile_index);
    keys = this->keys_of(q_tile_index);
    next_tile = keys.begin / kBlockKv;
    end_tile = (keys.end + kBlockKv - 1) / kBlockKv;
  }

  ATTNJIT_DEVICE Job next_job() {
    while (next_tile < end_tile) {
      const int tile = next_tile++;
      const TileUse use = this->look_up(tile, [&](int index) {
        return index < end_tile ? features.tile_use(block.batch, block.head, q_tile_index, index)
                                : TileUse::kSkip;
      });
      if (use != TileUse::kSkip) return {tile, use};
    }
    return {0, TileUse::kSkip};
  }
};

}  // namespace attnjit::kernel
