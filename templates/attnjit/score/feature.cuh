#pragma once
#include "attnjit/forward_config.h"
#include "attnjit/ptx/device.cuh"
#include "attnjit/score/tile_use.h"
#include "attnjit/types.h"

namespace attnjit::kernel {

// The part of the problem that one thread block works on, and the thread's place in it. Rows are
// those of the plane that the block belongs to: queries, or (query, head) pairs where the config
// packs heads.
struct Block {
  int batch;
  int head;                    // the query head, or the first of those that are packed
  int first_row, end_row;      // of the block, as far as they are in use
  int num_rows;                // of the plane
  int first_query, end_query;  // that the rows belong to
  int query_len, kv_len;       // queries and keys in use of this batch element
  int seqlen_q, seqlen_kv;     // of the tensors
  int thread_row;              // the thread's first row: + 16 m + 8 h is row h of its row tile m
  int thread_key;              // the thread's first key of a tile
};

// Whose row a row is.
struct RowOwner {
  int query, head;
};

template <ForwardConfig kConfig>
ATTNJIT_DEVICE RowOwner owner_of(const Block& block, int row) {
  constexpr int kHeads = kConfig.packed_heads();
  return {row / kHeads, block.head + row % kHeads};
}

// Keys that any query of the block may see.
struct KeyRange {
  int begin, end;
};

// The scores of one thread: [row tile][column group][fragment element], where elements 0 and 1
// belong to row h = 0 and elements 2 and 3 to row h = 1.
template <int kRowTiles, int kGroups>
using Scores = float[kRowTiles][kGroups][4];

// visit(score, m, n, e) for each score, with compile-time indices once unrolled.
template <int kRowTiles, int kGroups, class Visit>
ATTNJIT_DEVICE void for_each_score(Scores<kRowTiles, kGroups>& scores, Visit visit) {
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int n = 0; n < kGroups; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) visit(scores[m][n][e], m, n, e);
    }
  }
}

// What softmax knows of one row at the end.
struct RowState {
  float max;  // largest score, scale and bias included; -inf if there is none
  float sum;  // of exp(score - max); 0 marks a dead row
};

// A feature changes scores or drops them. Its verbs, in the order in which a block calls them;
// each does nothing unless the feature says otherwise.
struct Feature {
  // Sets the lengths of the block's batch element.
  ATTNJIT_DEVICE void set_lengths(Block&) {}
  // Fetches what the feature needs to know of the block.
  ATTNJIT_DEVICE void begin(const Block&) {}
  // Narrows the keys that the block's queries may see. All threads call it together.
  ATTNJIT_DEVICE void narrow(const Block&, KeyRange&) {}
  // What tile `tile` needs. All threads call it together.
  ATTNJIT_DEVICE TileUse use(const Block&, int) { return TileUse::kPlain; }
  // Whether K and V of `key` may be read.
  ATTNJIT_DEVICE bool reads_key(int) const { return true; }
  // Starts reading what add() and mask() will want of the tile that begins at `first_key`.
  ATTNJIT_DEVICE void fetch(const Block&, int, TileUse) {}
  // Adds to the scores.
  template <class S>
  ATTNJIT_DEVICE void add(const Block&, S&) {}
  // Sets dropped scores to -inf; called for masked tiles only.
  template <class S>
  ATTNJIT_DEVICE void mask(const Block&, S&, int) {}
  // Last word on a row.
  ATTNJIT_DEVICE void finish(const Block&, const RowOwner&, RowState&) {}
};

// All features of a kernel as one.
template <class... Features>
struct FeatureSet : Features... {
  ATTNJIT_DEVICE explicit FeatureSet(Features... features) : Features(features)... {}

  ATTNJIT_DEVICE void set_lengths(Block& block) { (Features::set_lengths(block), ...); }
  ATTNJIT_DEVICE void begin(const Block& block) { (Features::begin(block), ...); }
  ATTNJIT_DEVICE void narrow(const Block& block, KeyRange& keys) {
    (Features::narrow(block, keys), ...);
  }
  ATTNJIT_DEVICE TileUse use(const Block& block, int tile) {
    TileUse lowest = TileUse::kPlain;
    ((lowest = lower(lowest, Features::use(block, tile))), ...);
    return lowest;
  }
  ATTNJIT_DEVICE bool reads_key(int key) const { return (Features::reads_key(key) && ...); }
  ATTNJIT_DEVICE void fetch(const Block& block, int first_key, TileUse use) {
    (Features::fetch(block, first_key, use), ...);
  }
  template <class S>
  ATTNJIT_DEVICE void add(const Block& block, S& scores) {
    (Features::add(block, scores), ...);
  }
  template <class S>
  ATTNJIT_DEVICE void mask(const Block& block, S& scores, int first_key) {
    (Features::mask(block, scores, first_key), ...);
  }
  ATTNJIT_DEVICE void finish(const Block& block, const RowOwner& owner, RowState& row) {
    (Features::finish(block, owner, row), ...);
  }

 private:
  ATTNJIT_DEVICE static TileUse lower(TileUse a, TileUse b) { return a < b ? a : b; }
};

}  // namespace attnjit::kernel
