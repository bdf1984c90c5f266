#pragma once
#include "attnjit/types.h"

namespace attnjit::kernel {

// A block of rows to compute: tile `tile` of plane `plane`.
struct ForwardWork {
  int32 plane, tile;

  // Values of plane: the round has no work, or there are no more rounds.
  static constexpr int kNothing = -1, kEnd = -2;
};

// A static schedule of blocks of rows ("work") over persistent thread blocks, for costs that the
// host knows; others are counted (forward/wgmma/plan.cuh). The tiles of a plane go from the
// costliest to the cheapest.
//
// Where all work costs the same, each thread block gets one tile in a round. Under a causal mask
// tile i of n costs about n - i. Then the tiles of two planes form one row of falling costs: both
// tiles 0, both tiles 1, ... Pairs of one tile from the front and one from the back all cost the
// same, and each thread block gets a pair in a round, two planes after two planes. In the last one
// to two rounds not every thread block gets a pair. These rounds give out single tiles instead, in
// the order of their costs over all remaining planes, forth and back, so that loads differ by about
// one cheap tile. That order reads the keys of all these planes several times, so the last round
// has pairs too if nearly every thread block gets one.
struct ForwardSchedule {
  int32 num_blocks;       // thread blocks
  int32 num_planes;       // of tiles_per_plane each
  int32 tiles_per_plane;  // of a plane
  int32 paired_rounds;    // rounds with pairs; -1: all tiles cost the same
  int32 batches;          // elements of the batch whose planes alternate; 1: plane after plane

  // The work of thread block `block` in its round `round`.
  ATTNJIT_INLINE_CONSTEXPR ForwardWork work(int block, int round) const {
    ForwardWork work = next(block, round);
    if (work.plane >= 0) work.plane = alternated(work.plane);
    return work;
  }
  // The plane at place `plane`.
  ATTNJIT_INLINE_CONSTEXPR int alternated(int plane) const {
    if (batches <= 1) return plane;
    const int head = plane / batches;
    return (plane - head * batches) * (num_planes / batches) + head;
  }

 private:
  ATTNJIT_INLINE_CONSTEXPR ForwardWork next(int block, int round) const {
    if (paired_rounds < 0) {
      const int next = round * num_blocks + block;
      if (next >= num_planes * tiles_per_plane) return {ForwardWork::kEnd, 0};
      const int plane = next / tiles_per_plane;
      return {plane, next - plane * tiles_per_plane};
    }
    const int pairs = num_planes / 2 * tiles_per_plane;
    if (round < 2 * paired_rounds) {
      const int pair = round / 2 * num_blocks + block;
      if (pair >= pairs) return {ForwardWork::kNothing, 0};
      const int two_planes = pair / tiles_per_plane, front = pair - two_planes * tiles_per_plane;
      const int slot = round % 2 == 0 ? front : 2 * tiles_per_plane - 1 - front;
      return {2 * two_planes + slot % 2, slot / 2};
    }
    const int asked = paired_rounds * num_blocks, paired = asked < pairs ? asked : pairs;
    const int first_plane = paired / tiles_per_plane * 2, done = paired % tiles_per_plane;
    const int planes = num_planes - first_plane;
    const int unpaired = round - 2 * paired_rounds;
    const int position =
        unpaired * num_blocks + (unpaired % 2 == 0 ? block : num_blocks - 1 - block);
    if (unpaired * num_blocks >= planes * tiles_per_plane) return {ForwardWork::kEnd, 0};
    if (position >= planes * tiles_per_plane) return {ForwardWork::kNothing, 0};
    const int tile = position / planes, plane = position - tile * planes;
    const int slot = 2 * tile + plane;
    const bool was_paired = plane < 2 && (slot < done || slot >= 2 * tiles_per_plane - done);
    return {was_paired ? ForwardWork::kNothing : first_plane + plane, tile};
  }
};

// The number of rounds with pairs: all, if five of six thread blocks get one in the last round;
// else all but the last one to two.
ATTNJIT_CONSTEXPR int paired_rounds(int num_blocks, int num_planes, int tiles_per_plane) {
  const int64 pairs = static_cast<int64>(num_planes / 2) * tiles_per_plane;
  const int rounds = static_cast<int>(pairs / num_blocks);
  if (rounds <= 1) return 0;
  return pairs % num_blocks * 6 >= int64{5} * num_blocks ? rounds + 1 : rounds - 1;
}

}  // namespace attnjit::kernel
