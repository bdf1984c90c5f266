#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/tile/shared_tile.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel {

// A tile of scores between the warps that compute them and the warps that multiply by them:
// [kRows][kColumns] of 16-bit elements; kColumns is 32 or a multiple of 64. Like SharedTile, but
// its twist also avoids bank conflicts of stores that write four chunks in each of two rows at a
// time.
template <int kRows, int kColumns>
struct ScoreTile {
  uint32 base;  // a multiple of 128

  ATTNJIT_CONSTEXPR static int twist(int row) {
    return ((row & 1) << 2 | (row >> 1 & 3)) ^ (row >> 3 & 3);
  }
};

// Addresses of chunks in a tile relative to a position of the lane: the inner loop has one xor per
// chunk and an immediate offset. Both twists are linear over xor, so they apply bit by bit. The
// tile's columns are 32 or a multiple of 64.
template <class Tile, int kRows, int kChunks>
struct TileCursor {
  static constexpr int kLineBytes = kChunks < 8 ? 64 : 128;
  static constexpr int kMask = kChunks < 8 ? 3 : 7;
  static constexpr int kShift = kChunks < 8 ? 1 : 0;  // narrow lines use the twist's high bits
  uint32 line;

  // At `chunk` of `row`.
  ATTNJIT_DEVICE TileCursor(uint32 base, int row, int chunk)
      : line(base + row * kLineBytes + (chunk / (kMask + 1)) * (kRows * 128) +
             (((Tile::twist(row) >> kShift ^ chunk) & kMask) << 4)) {}

  // `rows` and `chunks` further, both known at compile time; they share no bit with the cursor's
  // position.
  ATTNJIT_DEVICE uint32 at(int rows, int chunks) const {
    const int twisted = (Tile::twist(rows) >> kShift ^ chunks) & kMask;
    return (line ^ (twisted << 4)) + rows * kLineBytes + chunks / (kMask + 1) * (kRows * 128);
  }
};

template <int kRows, int kColumns>
ATTNJIT_DEVICE auto cursor(const ScoreTile<kRows, kColumns>& tile, int row, int chunk) {
  return TileCursor<ScoreTile<kRows, kColumns>, kRows, kColumns / 8>(tile.base, row, chunk);
}

// Replaces TileCursor where a tile's columns do not allow one: every address is computed.
template <class Tile>
struct SlowCursor {
  Tile tile;
  int row, chunk;
  ATTNJIT_DEVICE uint32 at(int rows, int chunks) const {
    return tile.address(row + rows, chunk + chunks);
  }
};

template <int kRows, int kColumns>
ATTNJIT_DEVICE auto cursor(const SharedTile<kRows, kColumns>& tile, int row, int chunk) {
  if constexpr (kColumns % 64 == 0 || kColumns == 32) {
    return TileCursor<SharedTile<kRows, kColumns>, kRows, kColumns / 8>(tile.base, row, chunk);
  } else {
    return SlowCursor<SharedTile<kRows, kColumns>>{tile, row, chunk};
  }
}

}  // namespace attnjit::kernel
