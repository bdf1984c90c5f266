#pragma once
#include "attnjit/ptx/tensor_copy.cuh"
#include "attnjit/tensor_map.h"
#include "attnjit/tile/slab_tile.cuh"

namespace attnjit::kernel {

// Starts loading a SlabTile from rows of a head, slab by slab; one thread does.
template <class Tile>
ATTNJIT_DEVICE void load_slabs(uint32 tile, const TensorMap& map, uint32 full, int row, int head,
                               int batch) {
#pragma unroll 1
  for (int slab = 0; slab < Tile::kSlabs; ++slab) {
    ptx::tensor_load(tile + slab * Tile::kSlabBytes, map, full, 64 * slab, row, head, batch);
  }
}

}  // namespace attnjit::kernel
