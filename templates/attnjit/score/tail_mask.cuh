#pragma once
#include "attnjit/ptx/memory.cuh"
#include "attnjit/score/feature.cuh"
#include "attnjit/score/kept_keys.cuh"
#include "attnjit/score/tail_mask_params.h"

namespace attnjit::kernel {

// Drops some of the last keys in use by a boolean mask that has a column for each query, as drafts
// of a tree see only their ancestors. It is small and read from the caller's memory; tiles before
// the tail run without it.
template <ScoreShape kShape>
struct TailMask : Feature {
  const TailMaskParams& params;
  const uint8* plane;  // of the batch element
  int tail;            // key of column 0, below 0 where fewer keys are in use than columns

  ATTNJIT_DEVICE explicit TailMask(const TailMaskParams& p) : params(p), plane(nullptr), tail(0) {}

  ATTNJIT_DEVICE void begin(const Block& block) {
    plane = params.mask + block.batch * params.batch_stride;
    tail = block.kv_len - block.seqlen_q;
  }
  ATTNJIT_DEVICE TileUse use(const Block&, int tile) {
    return (tile + 1) * kShape.keys() > tail ? TileUse::kMasked : TileUse::kPlain;
  }
  template <class S>
  ATTNJIT_DEVICE void mask(const Block& block, S& scores, int first_key) {
    KeptKeys<kShape> kept;
    keep(block, kept, first_key);
    kept.apply(scores);
  }
  template <class K>
  ATTNJIT_DEVICE void keep(const Block& block, K& kept, int first_key) {
#pragma unroll
    for (int line = 0; line < kShape.lines(); ++line) {
      const int query = (block.thread_row + ScoreShape(kShape).row(line)) / kShape.pack_gqa_heads;
      // Results of rows past the tensor are never stored.
      const int last = block.seqlen_q - 1;
      const uint8* row = plane + (query < last ? query : last) * params.query_stride;
#pragma unroll
      for (int s = 0; s < K::kSpans; ++s) {
        const int column = first_key + block.thread_key + K::kSpan * s - tail;
        kept.drop(line, s, dropped(row, column, last));
      }
    }
  }

 private:
  // A bit for each of the thread's columns from `column` on that `row` drops. Branch-free, because
  // a divergent branch makes ptxas serialise the wgmma in flight: columns outside of the tail read
  // one of its ends.
  ATTNJIT_DEVICE uint32 dropped(const uint8* row, int column, int last) const {
    uint32 bits = 0;
#pragma unroll
    for (int i = 0; i < kShape.neighbours(); ++i) {
      const int at = column + i;
      const int inside = at < 0 ? 0 : at < last ? at : last;
      const bool drops = ptx::load_global(row + inside * params.key_stride) == 0;
      bits |= static_cast<uint32>(drops & (inside == at)) << i;
    }
    return bits;
  }
};

}  // namespace attnjit::kernel
