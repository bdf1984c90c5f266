#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel {

// The work of one thread block, and the thread's coordinates in it. Rows are those of the plane
// that the block belongs to: queries, or (query, head) pairs with pack_gqa.
struct Block {
  int batch;                   // or the sequence, where sequences are packed
  int head;                    // the query head, or with pack_gqa the first one
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
  int dropped_queries, dropped_keys;  // in use, but past those of operands

  // The start of the diagonal that ends at the last row and key in use.
  ATTNJIT_DEVICE int bottom_right() const {
    return kv_len + dropped_keys - query_len - dropped_queries;
  }
  // Moves to a batch element of tensors with so many rows and keys, all in use.
  ATTNJIT_DEVICE void enter(int element, int queries, int keys) {
    batch = tensor_batch = element;
    seqlen_q = query_len = operand_queries = queries;
    seqlen_kv = kv_len = operand_keys = keys;
    q_begin = kv_begin = padded_begin = dropped_queries = dropped_keys = 0;
  }
};

// The head and query of a row.
struct RowOwner {
  int query, head;
};

template <int kPackGqaHeads>
ATTNJIT_DEVICE RowOwner owner_of(const Block& block, int row) {
  return {row / kPackGqaHeads, block.head + row % kPackGqaHeads};
}

}  // namespace attnjit::kernel
