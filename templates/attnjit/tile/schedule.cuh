#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel {

// Coordinates of a thread block in the grid: a work tile of a plane.
struct PlaneTile {
  uint32 plane, tile;
};

// The work tile with index `index`, by default the thread block's. Indices go through a section of
// planes before the next one, and within it through tile 0 of all its planes, then tile 1: the
// longest tiles begin first, and the operands of a section stay in L2. `grid` has num_planes and
// section_planes.
template <class Grid>
ATTNJIT_DEVICE PlaneTile find_plane_tile(const Grid& grid, uint32 tiles_per_plane,
                                         uint32 index = ptx::block_index()) {
  const uint32 first_plane = index / (tiles_per_plane * grid.section_planes) * grid.section_planes;
  const uint32 rest = index - first_plane * tiles_per_plane;
  const uint32 left = grid.num_planes - first_plane;
  const uint32 most = grid.section_planes;
  const uint32 planes = left < most ? left : most;
  return {first_plane + rest % planes, rest / planes};
}

}  // namespace attnjit::kernel
