#pragma once
#include "attnjit/packed_order.h"
#include "attnjit/ptx/shuffle.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/score/packed_sequences_params.h"
#include "attnjit/tile/packed_rows.cuh"

namespace attnjit::kernel {

// A warp's way through the blocks of rows of all packed sequences, from those that cost most to
// those that cost nothing. It knows of a cost at a time, and of 32 sequences, one a lane: nothing
// is sorted, and nothing is kept in memory. Sequences go by sections, so that the way has few more
// steps than blocks, however many sequences there are.
struct CostliestFirst {
  static constexpr int kSectionSequences = 1024;

  int section = -kSectionSequences;  // its first sequence
  int first = 0;                     // of the 32 sequences
  int cost = 0, lowest = 0;          // of the blocks at hand, and of the last ones
  int passed = 0;                    // blocks before those of the 32 sequences
  int tile = 0, upto = 0;  // the lane's first block; blocks up to its last, of the 32 sequences

  // Sets `found` to the block of number `index`; numbers rise from call to call. After the last one
  // it returns false, and `found` has no rows.
  template <int kSize, int kHeads>
  ATTNJIT_DEVICE bool find(const PackedSequencesParams& params, int index, PackedTile& found) {
    const PackedRows& q = params.q;
    found = {q.num_sequences, ceil_div(q.num_rows * kHeads, kSize)};
    // Sequences that the caller must not give may overlap, and have more blocks than rows fill.
    if (index >= num_packed_tiles(q.num_rows * kHeads, q.num_sequences, kSize)) return false;
    while (true) {
      const int rest = index - passed, present = of_lane(upto, 31);
      if (rest < present) {
        const int lane = ptx::count_bits(ptx::warp_ballot(upto <= rest));
        const int before = lane == 0 ? 0 : of_lane(upto, lane - 1);
        found = {first + lane, of_lane(tile, lane) + rest - before};
        return true;
      }
      passed += present;
      first += 32;
      if (first >= end_of_section(params)) {
        --cost;
        first = section;
        if (cost < lowest && !enter_section<kSize, kHeads>(params)) return false;
      }
      look<kSize, kHeads>(params);
    }
  }

 private:
  ATTNJIT_DEVICE static int of_lane(int value, int lane) {
    return static_cast<int>(ptx::warp_broadcast(static_cast<uint32>(value), lane));
  }
  ATTNJIT_DEVICE static int higher(int a, int b) { return a > b ? a : b; }
  // Rows past the last sequence are those of one more, which has no keys.
  ATTNJIT_DEVICE int end_of_section(const PackedSequencesParams& params) const {
    const int end = section + kSectionSequences, sequences = params.q.num_sequences + 1;
    return end < sequences ? end : sequences;
  }
  template <int kSize, int kHeads>
  ATTNJIT_DEVICE BlockCosts costs_of_lane(const PackedSequencesParams& params) const {
    const int sequence = first + ptx::lane_index();
    if (sequence >= end_of_section(params)) return {0, 0, 0, false};
    const int queries = range_of(params.q, sequence).size;
    const bool exists = sequence < params.q.num_sequences;
    const int keys = exists ? range_of(params.kv, sequence).size : 0;
    return block_costs(params.order, queries, keys, kSize, kHeads);
  }
  // Turns to the next section and to the greatest cost of its blocks; with no section, to none.
  template <int kSize, int kHeads>
  ATTNJIT_DEVICE bool enter_section(const PackedSequencesParams& params) {
    section += kSectionSequences;
    upto = 0;
    if (section > params.q.num_sequences) return false;
    cost = 0;
    lowest = 1 << 30;  // above every cost
    for (first = section; first < end_of_section(params); first += 32) {
      const BlockCosts costs = costs_of_lane<kSize, kHeads>(params);
      if (costs.blocks == 0) continue;
      cost = higher(cost, costs.cost(costs.blocks - 1));
      lowest = -higher(-lowest, -costs.cost(0));
    }
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const int other = ptx::lane_index() ^ distance;
      cost = higher(cost, of_lane(cost, other));
      lowest = -higher(-lowest, -of_lane(lowest, other));
    }
    first = section;
    return true;
  }
  // Learns which blocks of the 32 sequences have the cost at hand.
  template <int kSize, int kHeads>
  ATTNJIT_DEVICE void look(const PackedSequencesParams& params) {
    const BlockCosts costs = costs_of_lane<kSize, kHeads>(params);
    tile = costs.below(cost);
    upto = costs.below(cost + 1) - tile;
    if (ptx::warp_ballot(upto != 0) == 0) return;
    const int lane = ptx::lane_index();
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const int before = of_lane(upto, lane < distance ? lane : lane - distance);
      if (lane >= distance) upto += before;
    }
  }
};

}  // namespace attnjit::kernel
