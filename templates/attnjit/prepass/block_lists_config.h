#pragma once
#include "attnjit/types.h"

namespace attnjit::kernel {

// Specialises the kernel that reads lists of blocks.
struct BlockListsConfig {
  int num_warps;

  ATTNJIT_CONSTEXPR int num_threads() const { return 32 * num_warps; }
  ATTNJIT_CONSTEXPR int shared_bytes() const { return 0; }
};

// Lists of one kind.
struct ListedBlocks {
  const int32* indices;
  const int32* counts;
  int64 index_strides[4];  // over (batch, head, row block, entry), in elements
  int64 count_strides[3];  // over (batch, head, row block)
  int32 most;              // entries of a list
  uint8* listed;           // [batch][head][row block][line_bytes], 16-byte aligned
};

struct BlockListsParams {
  ListedBlocks kinds[2];
  int64 lines;  // of a kind: blocks of rows of all batch elements and heads
  int32 num_heads, row_blocks, key_blocks;
  int32 line_bytes;    // key_blocks, rounded up to 16
  uint32* work_taken;  // to be cleared; may be nullptr
};

}  // namespace attnjit::kernel
