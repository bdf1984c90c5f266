#pragma once
#include "attnjit/tile/packed_rows.cuh"

namespace attnjit::kernel {

ATTNJIT_DEVICE int lower(int a, int b) { return a < b ? a : b; }

// Rows or keys in use of a sequence that has `limit` of them; all without `lengths`.
ATTNJIT_DEVICE int rows_in_use(const int32* lengths, int sequence, int limit) {
  if (lengths == nullptr) return limit;
  const int length = ptx::load_global(lengths + sequence);
  return length < 0 ? 0 : lower(length, limit);
}

// The keys of one of the sequences of `q`: those from its begin in `kv` to the next one, or, where
// keys are paged, those in use, counted from 0 in its row of the block table.
template <bool kPagedKeys>
ATTNJIT_DEVICE PackedRange keys_of_sequence(const PackedRows& q, const PackedRows& kv,
                                            const int32* used_kv, int sequence) {
  if constexpr (kPagedKeys) {
    return {0, sequence < q.num_sequences ? rows_in_use(used_kv, sequence, kv.num_rows) : 0};
  } else {
    return range_of(kv, sequence);
  }
}

}  // namespace attnjit::kernel
