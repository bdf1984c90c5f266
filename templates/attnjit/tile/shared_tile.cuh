#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel {

// A [kRows][kColumns] tile of 16-bit elements in shared memory; kColumns % 16 == 0.
//
// Columns are cut into slabs of 64 (one 128-byte line per row), then one of 32 and one of 16 as
// the width needs. A 16-byte chunk of a slab moves to chunk ^ twist(row):
//
//     twist(row) = (row & 7) ^ ((row >> 2) & 6)
//
// takes eight different values over eight consecutive rows (Q, O, and the copies) and over the
// rows {r, r + 1} + {0, 8, 16, 24} that a key fragment gathers (tile/key_order.h), so neither
// has bank conflicts. Narrow slabs put several rows in a line and use the high bits of the twist.
template <int kRows, int kColumns>
struct SharedTile {
  static constexpr int kChunks = kColumns / 8;
  static constexpr int kBytes = kRows * kColumns * 2;
  uint32 base;  // a multiple of 128: a chunk is a bit pattern above it

  ATTNJIT_DEVICE static int twist(int row) { return (row & 7) ^ ((row >> 2) & 6); }

  // Byte address of columns [8 chunk, 8 chunk + 8) of `row`. The twist is folded into the row's
  // address, so that a chunk known at compile time costs one xor.
  ATTNJIT_DEVICE uint32 address(int row, int chunk) const {
    constexpr int kWide = kChunks & ~7;
    if (kWide == kChunks || chunk < kWide) {
      const uint32 line = base + row * 128 + (twist(row) << 4);
      return (line ^ ((chunk & 7) << 4)) + (chunk >> 3) * (kRows * 128);
    }
    const uint32 rest = base + kWide * (kRows * 16);
    if ((kChunks & 4) != 0 && chunk < kWide + 4) {
      const uint32 line = rest + row * 64 + (twist(row) >> 1 << 4);
      return line ^ ((chunk & 3) << 4);
    }
    const uint32 line = rest + (kChunks & 4) * (kRows * 16) + row * 32 + (twist(row) >> 2 << 4);
    return line ^ ((chunk & 1) << 4);
  }
};

// The tile whose first row is row `first` of another one, a multiple of 32: no twist changes. Tiles
// of one slab.
template <int kRows, int kColumns>
ATTNJIT_DEVICE SharedTile<kRows, kColumns> rows_from(const SharedTile<kRows, kColumns>& tile,
                                                     int first) {
  static_assert(kColumns == 16 || kColumns == 32 || kColumns == 64);
  return {tile.base + first * (kColumns * 2)};
}

}  // namespace attnjit::kernel
