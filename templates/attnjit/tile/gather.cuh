#pragma once
#include "attnjit/ptx/thread.cuh"
#include "attnjit/tile/copy.cuh"
#include "attnjit/tile/shared_tile.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel {

// Like load_tile(), for rows at separate addresses: address(row, find(row)). A thread finds the
// addresses of up to eight of its rows before it starts their copies, so that the latencies
// overlap. All lanes of a warp call find(), for any row; keep(row, found) tells the rows that are
// read.
template <bool kAligned, int kColumns, int kThreads, int kRows, int kPadded, class Find,
          class Address, class Keep>
ATTNJIT_DEVICE void gather_tile(const SharedTile<kRows, kPadded>& tile, Find find, Address address,
                                Keep keep) {
  constexpr int kChunks = kPadded / 8;
  constexpr int kRowsPerPass = kThreads / kChunks;
  constexpr int kPasses = ceil_div(kRows, kRowsPerPass);
  constexpr int kTogether = kPasses < 8 ? kPasses : 8;
  const int chunk = ptx::thread_index() % kChunks;
  const int begin = ptx::thread_index() / kChunks;
  const bool copies = kThreads % kChunks == 0 || begin < kRowsPerPass;
#pragma unroll 1
  for (int pass = 0; pass < kPasses; pass += kTogether) {
    const int first = pass * kRowsPerPass + begin;
    int found[kTogether];
    uint32 kept = 0;
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const int row = first + i * kRowsPerPass;
      found[i] = find(row);
      if (copies && row < kRows && chunk * 8 < kColumns && keep(row, found[i])) kept |= 1u << i;
    }
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const int row = first + i * kRowsPerPass;
      if (!copies || row >= kRows) continue;
      load_chunk<kAligned, kColumns>(tile, row, chunk, address(row, found[i]),
                                     (kept >> i & 1) != 0);
    }
  }
}

}  // namespace attnjit::kernel
