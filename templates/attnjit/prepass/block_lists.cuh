#pragma once
#include "attnjit/prepass/block_lists_config.h"
#include "attnjit/prepass/clear_count.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/thread.cuh"

// Turns the list of each block of rows into a byte per block of keys, 1 where the list names it:
// the operand by which keep expressions read lists. Sets the counter to 0 from which thread blocks
// of the next kernel take their work.
//
//   indices  [batch][head][row block][entry], of which counts tells those in use
//   listed   [batch][head][row block][key block], lines of whole 16 bytes
//
// A thread block has the list of one block of rows, of one kind.
namespace attnjit::kernel {

template <BlockListsConfig kConfig>
struct BlockLists {
  const BlockListsParams& params;

  ATTNJIT_DEVICE void run() const {
    ptx::let_next_kernel_begin();
    clear_count(params.work_taken);
    const int64 index = ptx::block_index();
    const bool second = index >= params.lines;
    mark(params.kinds[second ? 1 : 0], second ? index - params.lines : index);
  }

 private:
  ATTNJIT_DEVICE void mark(const ListedBlocks& kind, int64 line) const {
    uint8* const listed = kind.listed + line * params.line_bytes;
    for (int at = ptx::thread_index() * 16; at < params.line_bytes;
         at += kConfig.num_threads() * 16) {
      ptx::store_global(reinterpret_cast<ptx::Vector16*>(listed + at), ptx::Vector16{});
    }
    const int row_block = static_cast<int>(line % params.row_blocks);
    const int64 plane = line / params.row_blocks;
    const int64 batch = plane / params.num_heads, head = plane % params.num_heads;
    const int32* const indices = kind.indices + batch * kind.index_strides[0] +
                                 head * kind.index_strides[1] + row_block * kind.index_strides[2];
    const int given = ptx::load_global(kind.counts + batch * kind.count_strides[0] +
                                       head * kind.count_strides[1] +
                                       row_block * kind.count_strides[2]);
    const int count = given < kind.most ? given : kind.most;
    // The zeros of all threads lie behind, so that none overwrites a mark.
    ptx::block_sync();
    for (int entry = ptx::thread_index(); entry < count; entry += kConfig.num_threads()) {
      const int block = ptx::load_global(indices + entry * kind.index_strides[3]);
      if (static_cast<uint32>(block) < static_cast<uint32>(params.key_blocks)) {
        ptx::store_global(listed + block, uint8{1});
      }
    }
  }
};

template <BlockListsConfig kConfig>
ATTNJIT_DEVICE void block_lists(const BlockListsParams& params) {
  BlockLists<kConfig>{params}.run();
}

}  // namespace attnjit::kernel
