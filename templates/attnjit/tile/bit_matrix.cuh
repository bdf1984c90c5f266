#pragma once
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/permute.cuh"
#include "attnjit/ptx/shuffle.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel {

// The transpose of a matrix of 32 by 32 bits: bit i of lane j's word becomes bit j of lane i's.
// Five steps exchange blocks of 16, 8, 4, 2 and 1 bits (H. S. Warren, Hacker's Delight, 7-3). Warps
// call it whole.
ATTNJIT_DEVICE uint32 transpose_bits(uint32 word) {
  const int lane = ptx::lane_index();
  uint32 low = 0x0000ffffu;  // bits whose number has no `block`
#pragma unroll
  for (int block = 16; block > 0; block /= 2) {
    const uint32 other = ptx::warp_broadcast(word, lane ^ block);
    word = (lane & block) == 0 ? (word & low) | (other & low) << block
                               : (word & ~low) | (other >> block & low);
    low ^= low << (block / 2);
  }
  return word;
}

// Byte s of word t becomes byte t of word s.
ATTNJIT_DEVICE ptx::Vector16 transpose_bytes(const uint32 (&word)[4]) {
  constexpr uint32 kLowPairs = 0x5140, kHighPairs = 0x7362;  // bytes 0 and 1 of both, 2 and 3
  constexpr uint32 kLowHalves = 0x5410, kHighHalves = 0x7632;
  const uint32 low[2] = {ptx::permute_bytes(word[0], word[1], kLowPairs),
                         ptx::permute_bytes(word[2], word[3], kLowPairs)};
  const uint32 high[2] = {ptx::permute_bytes(word[0], word[1], kHighPairs),
                          ptx::permute_bytes(word[2], word[3], kHighPairs)};
  return {{ptx::permute_bytes(low[0], low[1], kLowHalves),
           ptx::permute_bytes(low[0], low[1], kHighHalves),
           ptx::permute_bytes(high[0], high[1], kLowHalves),
           ptx::permute_bytes(high[0], high[1], kHighHalves)}};
}

// Pairs of bits as a matrix of 4 by 4: pair t of byte j becomes pair j of byte t.
ATTNJIT_DEVICE uint32 transpose_pairs(uint32 word) {
  const uint32 single =
      (word ^ word >> 6) & 0x00cc00ccu;  // differences of pairs that change places
  word ^= single ^ single << 6;
  const uint32 blocks = (word ^ word >> 12) & 0x0000f0f0u;  // the same of blocks of 2 by 2
  return word ^ blocks ^ blocks << 12;
}

// A column of a mask in the order of bit_mask_params.h: pair t of each eight bits, in quarter t.
ATTNJIT_DEVICE ptx::Vector8 quarters_of(const uint32 (&column)[2]) {
  const uint32 low = transpose_pairs(column[0]), high = transpose_pairs(column[1]);
  return {{ptx::permute_bytes(low, high, 0x5140), ptx::permute_bytes(low, high, 0x7362)}};
}

}  // namespace attnjit::kernel
