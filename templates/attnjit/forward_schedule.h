#pragma once
#include "attnjit/types.h"

namespace attnjit::kernel {

// An order in which thread blocks that stay on their SMs share out blocks of rows ("work") without
// asking one another. Work is numbered plane by plane, the parts of a plane from the costliest to
// the cheapest.
//
// Thread blocks take turns where all work costs the same. Under a causal mask part i of n costs
// about n
// - i. Then the parts of two planes are put in one row, costs falling: both parts 0, both parts 1,
// ... Pairs of one from the front and one from the back all cost the same, and thread blocks take
// turns with pairs, two planes after two planes. The last one to two turns, in which not everybody
// gets a pair, are dealt out one by one instead: in the order of their costs over all planes that
// are left, there and back, so that loads differ by about one cheap part.
struct ForwardSchedule {
  int32 num_blocks;    // thread blocks
  int32 num_planes;    // of num_parts each
  int32 num_parts;     // of a plane
  int32 paired_turns;  // turns with pairs; -1: all parts cost the same

  static constexpr int kEnd = -1, kNothing = -2;

  // The work of thread block `block` in its round `round`, kNothing where the round has none for
  // it, or kEnd.
  ATTNJIT_INLINE_CONSTEXPR int work(int block, int round) const {
    if (paired_turns < 0) {
      const int next = round * num_blocks + block;
      return next < num_planes * num_parts ? next : kEnd;
    }
    if (round < 2 * paired_turns) {
      const int pair = round / 2 * num_blocks + block;
      const int two_planes = pair / num_parts, front = pair - two_planes * num_parts;
      const int place = round % 2 == 0 ? front : 2 * num_parts - 1 - front;
      return (2 * two_planes + place % 2) * num_parts + place / 2;
    }
    const int paired = paired_turns * num_blocks;
    const int first_plane = paired / num_parts * 2, done = paired % num_parts;
    const int planes = num_planes - first_plane;
    const int turn = round - 2 * paired_turns;
    const int position = turn * num_blocks + (turn % 2 == 0 ? block : num_blocks - 1 - block);
    if (turn * num_blocks >= planes * num_parts) return kEnd;
    if (position >= planes * num_parts) return kNothing;
    const int part = position / planes, plane = position - part * planes;
    const int place = 2 * part + plane;
    const bool was_paired = plane < 2 && (place < done || place >= 2 * num_parts - done);
    return was_paired ? kNothing : (first_plane + plane) * num_parts + part;
  }
};

// The turns with pairs that leave one to two turns' worth of them.
ATTNJIT_CONSTEXPR int paired_turns(int num_blocks, int num_planes, int num_parts) {
  const int64 turns = static_cast<int64>(num_planes / 2) * num_parts / num_blocks;
  return turns > 1 ? static_cast<int>(turns - 1) : 0;
}

}  // namespace attnjit::kernel
