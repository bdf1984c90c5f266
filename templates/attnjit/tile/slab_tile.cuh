#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/ptx/wgmma.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel {

// The descriptor of an operand of wgmma in a SlabTile whose columns are the depth of the product.
// It is computed once and gains constants: ptxas has no registers for more descriptors (C7512).
template <class Tile>
struct KMajor {
  uint64 descriptor;

  // The descriptor of step i, which is 16 deep.
  ATTNJIT_DEVICE uint64 step(int i) const { return descriptor + Tile::columns_on(16 * i) / 16; }
  // The descriptor of buffer `index` of a ring, whose buffers are `bytes` apart.
  ATTNJIT_DEVICE KMajor of_buffer(uint32 index, int bytes = Tile::kBytes) const {
    return {descriptor + index * (bytes / 16)};
  }
};
// The same for a SlabTile whose rows are the depth.
template <class Tile>
struct MnMajor {
  uint64 descriptor;

  ATTNJIT_DEVICE uint64 step(int i) const { return descriptor + Tile::rows_on(16 * i) / 16; }
  ATTNJIT_DEVICE MnMajor of_buffer(uint32 index, int bytes = Tile::kBytes) const {
    return {descriptor + index * (bytes / 16)};
  }
};

// A [kRows][kColumns] tile of 16-bit elements in shared memory, at a multiple of 8 lines, as the
// copy engine fills it and wgmma reads it: slabs of 64 columns one after another, a line of 128
// bytes per row, whose 16-byte chunk c lies at c ^ (row & 7) (the 128-byte swizzle). Of slabs of 32
// columns chunk c lies at c ^ (row / 2 & 3) (the 64-byte swizzle).
template <int kRows, int kColumns, int kSlabColumns = 64>
struct SlabTile {
  static constexpr int kHeight = kRows, kWidth = kColumns;
  static constexpr int kSlabs = ceil_div(kColumns, kSlabColumns);
  static constexpr int kLineBytes = 2 * kSlabColumns;
  static constexpr int kSlabBytes = kRows * kLineBytes;
  static constexpr int kBytes = kSlabs * kSlabBytes;
  static constexpr int kGroupBytes = 8 * kLineBytes;  // of rows, after which the swizzle repeats

  // The offset of a row, a multiple of 8 for a descriptor; of a column, a multiple of 16.
  ATTNJIT_DEVICE static constexpr int rows_on(int row) { return row * kLineBytes; }
  ATTNJIT_DEVICE static constexpr int columns_on(int column) {
    return column % kSlabColumns * 2 + column / kSlabColumns * kSlabBytes;
  }

  // Descriptors of the tile at `address`, or of its rows from there on.
  ATTNJIT_DEVICE static KMajor<SlabTile> k_major(uint32 address) {
    return {ptx::matrix_descriptor<kLineBytes>(address, 16, kGroupBytes)};
  }
  ATTNJIT_DEVICE static MnMajor<SlabTile> mn_major(uint32 address) {
    return {ptx::matrix_descriptor<kLineBytes>(address, kSlabBytes, kGroupBytes)};
  }
};

}  // namespace attnjit::kernel
