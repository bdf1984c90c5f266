#pragma once
#include "attnjit/ptx/device.cuh"
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
  int thread_row;              // the thread's first row, see ScoreShape
  int thread_key;              // its first key of a tile
};

// Whose row a row is.
struct RowOwner {
  int query, head;
};

template <int kPackedHeads>
ATTNJIT_DEVICE RowOwner owner_of(const Block& block, int row) {
  return {row / kPackedHeads, block.head + row % kPackedHeads};
}

}  // namespace attnjit::kernel
