#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel {

// A place in the grid: one part of a plane's work.
struct PlanePart {
  uint32 plane, part;
};

// Place `index`, a thread block's own unless it is given. Places go through a section of planes
// before the next one, and within it through part 0 of all its planes, then part 1: what takes
// longest begins first, and what a section reads stays in L2. `grid` has num_planes and
// section_planes.
template <class Grid>
ATTNJIT_DEVICE PlanePart find_plane_part(const Grid& grid, uint32 parts_per_plane,
                                         uint32 index = ptx::block_index()) {
  const uint32 first_plane = index / (parts_per_plane * grid.section_planes) * grid.section_planes;
  const uint32 rest = index - first_plane * parts_per_plane;
  const uint32 left = grid.num_planes - first_plane;
  const uint32 most = grid.section_planes;
  const uint32 planes = left < most ? left : most;
  return {first_plane + rest % planes, rest / planes};
}

}  // namespace attnjit::kernel
