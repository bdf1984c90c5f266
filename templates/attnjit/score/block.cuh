#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel {

// The part of the problem that one thread block works on, and the thread's place in it. Rows are
// those of the plane that the block belongs to: queries, or (query, head) pairs where the config
// packs heads.
struct Block {
  int batch;                   // or the sequence, where sequences are packed
  int head;                    // the query head, or the first of those that are packed
  int first_row, end_row;      // of the block, as far as they are in use
  int num_rows;                // of the plane, or of the sequence
  int first_query, end_query;  // that the rows belong to
  int query_len, kv_len;       // queries and keys in use of this batch element
  int seqlen_q, seqlen_kv;     // of the tensors, or of the sequence
  int thread_row;              // the thread's first row, see ScoreShape
  int thread_key;              // its first key of a tile

  // Packed sequences change these, see packed_sequences.cuh.
  int tensor_batch;                   // the index in tensors
  int q_begin, kv_begin;              // rows and keys of the tensors before its first ones
  int padded_begin, padded_rows;      // of a head's rows in the arrays of the backward
  int operand_queries, operand_keys;  // that masks and biases have
  int hidden_queries, hidden_keys;    // in use, but past those: not in query_len and kv_len

  // Where the diagonal begins that ends at the last row and key in use.
  ATTNJIT_DEVICE int bottom_right() const {
    return kv_len + hidden_keys - query_len - hidden_queries;
  }
  // Turns to a batch element of tensors with so many rows and keys, all in use.
  ATTNJIT_DEVICE void enter(int element, int queries, int keys) {
    batch = tensor_batch = element;
    seqlen_q = query_len = operand_queries = queries;
    seqlen_kv = kv_len = operand_keys = keys;
    q_begin = kv_begin = padded_begin = hidden_queries = hidden_keys = 0;
  }
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
