#pragma once
#include <cstdint>
#include <optional>

#include "attnjit/tensor.hpp"

namespace attnjit::inline ATTNJIT_CPP_VERSION {

/// The blocks of keys that each block of query rows attends to, as lists in device memory, which
/// kernels read: a captured graph replays with what the lists hold then. Block r has the rows from
/// r * block_q on, of a batch element or packed sequence, block c the keys from c * block_kv on. A
/// list is a set: order and repetition make no difference. An index outside 0 ... blocks - 1 names
/// no block, and a count is clamped to 0 ... n. Pairs of a row and a key in no listed block are
/// dropped, and everything else of the call holds inside the blocks.
struct BlockLists {
  std::int64_t block_q = 0;   ///< rows of a block, 1 or more; multiples of 64 are fast
  std::int64_t block_kv = 0;  ///< keys of a block, the same
  /// [B|1, Hq|Hkv|1, row blocks, n], kInt32, any strides: the blocks of keys of each block of rows.
  /// There are ceil(Lq / block_q) blocks of rows; of packed sequences any number, past which rows
  /// are dropped.
  Tensor indices;
  Tensor counts;  ///< [B|1, Hq|Hkv|1, row blocks, 1], kInt32: entries of each list in use
  /// Further lists, both or none, of blocks inside which the call's keep expression is not looked
  /// at. The n of its indices may differ, the other sizes may not.
  std::optional<Tensor> full_indices, full_counts;  ///< as indices, and as counts
  /// Blocks of keys; keys past them are dropped. 0: ceil(Lk / block_kv), which of packed sequences
  /// counts the keys of all; other numbers are for packed sequences.
  std::int64_t num_kv_blocks = 0;
};

}  // namespace attnjit::inline ATTNJIT_CPP_VERSION
