#pragma once
#include "attnjit/packed_rows.h"
#include "attnjit/packed_work.h"

namespace attnjit::kernel {

// Sequences packed into tensors without a batch axis.
struct PackedSequencesParams {
  PackedRows q;
  PackedRows kv;                        // of paged keys: no sequences, and the keys of one at most
  const int32 *used_q, *used_kv;        // [num_sequences] rows and keys in use, or null
  int32 operand_queries, operand_keys;  // of the axes of masks and biases
  PackedWork work;                      // of the Hopper forward
};

}  // namespace attnjit::kernel
