#pragma once
#include "attnjit/backward/params.h"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/score/feature.cuh"
#include "attnjit/score/packed_sequences_params.h"
#include "attnjit/tile/packed_rows.cuh"
#include "attnjit/tile/sequence_keys.cuh"

namespace attnjit::kernel {

// Packed sequences, as a policy of addresses. The host does not know the lengths: it launches the
// tiles that packed_rows.h numbers, and a plane is a head. A thread block converts the number of
// its tile to a sequence and a tile of that sequence (find_queries, find_keys) and takes the
// sequence as its batch element, with rows and keys counted from the sequence's first ones
// (set_lengths). The loops see a plane of that size; q_begin and kv_begin are its first rows in the
// tensors, padded_begin in the arrays of the backward. Tensors have a batch stride of 0. Masks and
// biases index their plane by the number of the sequence instead of the batch element. With
// kPagedKeys the block table does so too; pools have no sequences, and kv_begin is 0.
//
// Rows past the last sequence form one more sequence without keys and without a row in use.
template <bool kPagedKeys>
struct PackedSequences : Feature {
  static constexpr bool kNarrows = true, kPacksSequences = true;

  const PackedSequencesParams& params;

  ATTNJIT_DEVICE explicit PackedSequences(const PackedSequencesParams& p) : params(p) {}

  template <int kHeads>
  ATTNJIT_DEVICE int find_queries(int& sequence, int tile, int size) const {
    const PackedTile found = find_tile<kHeads>(params.q, tile, size);
    sequence = found.sequence;
    return found.tile;
  }
  // The number of blocks of rows, for a kernel that does not number them itself.
  ATTNJIT_DEVICE const PackedWork& packed_work() const { return params.work; }
  ATTNJIT_DEVICE int find_keys(int& sequence, int tile, int size) const {
    const PackedTile found = find_tile(params.kv, tile, size);
    sequence = found.sequence;
    return found.tile;
  }

  ATTNJIT_DEVICE void set_lengths(Block& block) {
    const int sequence = block.batch;
    const bool exists = sequence < params.q.num_sequences;
    const PackedRange q = range_of(params.q, sequence);
    const PackedRange kv =
        keys_of_sequence<kPagedKeys>(params.q, params.kv, params.used_kv, sequence);
    // Readers of an operand read no key then, but may compute the address of a plane.
    if (!exists) block.batch = sequence - 1;
    block.tensor_batch = 0;
    block.seqlen_q = q.size;
    block.seqlen_kv = kv.size;
    block.q_begin = q.begin;
    block.kv_begin = kv.begin;
    block.padded_begin = first_packed_tile(q.begin, sequence, kRowBlock) * kRowBlock;
    block.padded_rows = round_up(q.size, kRowBlock);
    const int queries = exists ? rows_in_use(params.used_q, sequence, q.size) : 0;
    const int keys = exists ? keys_in_use(sequence, kv.size) : 0;
    // At least one, which is read where a block of rows has none.
    const int most_queries = lower(q.size, params.operand_queries);
    block.operand_queries = most_queries > 1 ? most_queries : 1;
    block.operand_keys = lower(kv.size, params.operand_keys);
    block.query_len = lower(queries, params.operand_queries);
    block.kv_len = lower(keys, params.operand_keys);
    block.dropped_queries = queries - block.query_len;
    block.dropped_keys = keys - block.kv_len;
  }
  ATTNJIT_DEVICE void finish(const Block& block, const RowOwner& owner, RowState& row) {
    if (owner.query >= block.query_len) row.sum = 0.0f;
  }

 private:
  // Those of pages are all that keys_of_sequence() counts.
  ATTNJIT_DEVICE int keys_in_use(int sequence, int limit) const {
    if constexpr (kPagedKeys) return limit;
    return rows_in_use(params.used_kv, sequence, limit);
  }
};

}  // namespace attnjit::kernel
