#pragma once
#include "attnjit/types.h"

namespace attnjit::kernel {

// A block of rows to work on: part `part` of plane `plane`.
struct ForwardWork {
  int32 plane, part;

  // In place of a plane: the round has none, or there are no more rounds.
  static constexpr int kNothing = -1, kEnd = -2;
};

// An order in which thread blocks that stay on their SMs share out blocks of rows ("work") without
// asking one another. The parts of a plane go from the costliest to the cheapest.
//
// Thread blocks get one unit each in a round where all work costs the same. Under a causal mask
// part i of n costs about n - i. Then the parts of two planes are put in one row, costs falling:
// both parts 0, both parts 1, ... Pairs of one from the front and one from the back all cost the
// same, and thread blocks get a pair each in a round, two planes after two planes. The last one to
// two rounds, in which not everybody gets a pair, are dealt out one by one instead: in the order of
// their costs over all planes that are left, there and back, so that loads differ by about one
// cheap part. But that goes through the keys of all these planes several times, so the last round
// is one of pairs as well if nearly everybody gets one.
struct ForwardSchedule {
  int32 num_blocks;     // thread blocks
  int32 num_planes;     // of num_parts each
  int32 num_parts;      // of a plane
  int32 paired_rounds;  // rounds with pairs; -1: all parts cost the same
  int32 batches;        // elements of the batch whose planes alternate; 1: plane after plane

  // The work of thread block `block` in its round `round`.
  ATTNJIT_INLINE_CONSTEXPR ForwardWork work(int block, int round) const {
    ForwardWork work = next(block, round);
    if (batches > 1 && work.plane >= 0) {
      const int head = work.plane / batches;
      work.plane = (work.plane - head * batches) * (num_planes / batches) + head;
    }
    return work;
  }

 private:
  ATTNJIT_INLINE_CONSTEXPR ForwardWork next(int block, int round) const {
    if (paired_rounds < 0) {
      const int next = round * num_blocks + block;
      if (next >= num_planes * num_parts) return {ForwardWork::kEnd, 0};
      const int plane = next / num_parts;
      return {plane, next - plane * num_parts};
    }
    const int pairs = num_planes / 2 * num_parts;
    if (round < 2 * paired_rounds) {
      const int pair = round / 2 * num_blocks + block;
      if (pair >= pairs) return {ForwardWork::kNothing, 0};
      const int two_planes = pair / num_parts, front = pair - two_planes * num_parts;
      const int slot = round % 2 == 0 ? front : 2 * num_parts - 1 - front;
      return {2 * two_planes + slot % 2, slot / 2};
    }
    const int asked = paired_rounds * num_blocks, paired = asked < pairs ? asked : pairs;
    const int first_plane = paired / num_parts * 2, done = paired % num_parts;
    const int planes = num_planes - first_plane;
    const int unpaired = round - 2 * paired_rounds;
    const int position =
        unpaired * num_blocks + (unpaired % 2 == 0 ? block : num_blocks - 1 - block);
    if (unpaired * num_blocks >= planes * num_parts) return {ForwardWork::kEnd, 0};
    if (position >= planes * num_parts) return {ForwardWork::kNothing, 0};
    const int part = position / planes, plane = position - part * planes;
    const int slot = 2 * part + plane;
    const bool was_paired = plane < 2 && (slot < done || slot >= 2 * num_parts - done);
    return {was_paired ? ForwardWork::kNothing : first_plane + plane, part};
  }
};

// The rounds with pairs: all, if five of six thread blocks get one in the last round, or those that
// leave one to two rounds' worth of them.
ATTNJIT_CONSTEXPR int paired_rounds(int num_blocks, int num_planes, int num_parts) {
  const int64 pairs = static_cast<int64>(num_planes / 2) * num_parts;
  const int rounds = static_cast<int>(pairs / num_blocks);
  if (rounds <= 1) return 0;
  return pairs % num_blocks * 6 >= int64{5} * num_blocks ? rounds + 1 : rounds - 1;
}

}  // namespace attnjit::kernel
