#pragma once
#include "attnjit/packed_rows.h"

namespace attnjit::kernel {

// The blocks of rows of packed sequences, which thread blocks that stay on their SMs take one after
// another. It lies in the workspace: prepass/packed_order.cuh writes it, and the forward counts.
struct PackedWork {
  PackedTile* tiles;  // all with rows, the costliest first; behind them one without rows
  uint32* counts;

  static constexpr int kTaken = 0;    // of counts: positions of packed_position() that are taken
  static constexpr int kTiles = 1;    // blocks of rows that have rows
  static constexpr int kSection = 2;  // planes of a section
  static constexpr int kCounts = 3;
};

// A block of rows of a plane: rank among the tiles of PackedWork.
struct PackedPosition {
  uint32 rank, plane;
};

// Number `position` of the blocks of rows of all planes. Planes go by sections, whose keys stay in
// L2 while all of their blocks of rows are worked on, and those of a section alternate.
ATTNJIT_INLINE_CONSTEXPR PackedPosition packed_position(uint32 position, uint32 num_tiles,
                                                        uint32 section_planes) {
  const uint32 section = position / (num_tiles * section_planes);
  const uint32 within = position - section * num_tiles * section_planes;
  const uint32 rank = within / section_planes;
  return {rank, section * section_planes + within - rank * section_planes};
}

// Sections of equal size, `most` at most. `rounds` is the time of all blocks of rows over that of
// the costliest one, of a thread block: a section that takes less time than its costliest block of
// rows would end in that one alone.
ATTNJIT_INLINE_CONSTEXPR int packed_sections(int most, int kv_heads, float rounds) {
  int sections = rounds < static_cast<float>(most) ? static_cast<int>(rounds) : most;
  while (sections > 1 && kv_heads % sections != 0) --sections;
  return sections > 1 ? sections : 1;
}

}  // namespace attnjit::kernel
