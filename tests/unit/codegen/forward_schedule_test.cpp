// The order in which thread blocks of the Hopper forward share out their work.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "attnjit/forward/wgmma/schedule.h"

using attnjit::kernel::ForwardSchedule;
using attnjit::kernel::ForwardWork;
using attnjit::kernel::paired_rounds;

namespace {

// Walks all thread blocks to their ends: how often each work tile is taken, and the cost of each
// block's, where tile i of n costs n - i.
struct Shares {
  std::vector<int> had, costs;
};

Shares share_out(const ForwardSchedule& schedule) {
  Shares shares;
  shares.had.resize(static_cast<std::size_t>(schedule.num_planes) * schedule.tiles_per_plane);
  shares.costs.resize(static_cast<std::size_t>(schedule.num_blocks));
  for (int block = 0; block < schedule.num_blocks; ++block) {
    for (int round = 0;; ++round) {
      const ForwardWork work = schedule.work(block, round);
      if (work.plane == ForwardWork::kEnd) break;
      if (work.plane == ForwardWork::kNothing) continue;
      ++shares.had.at(static_cast<std::size_t>(work.plane) * schedule.tiles_per_plane + work.tile);
      shares.costs[static_cast<std::size_t>(block)] += schedule.tiles_per_plane - work.tile;
    }
  }
  return shares;
}

ForwardSchedule falling(int blocks, int planes, int tiles) {
  return {blocks, planes, tiles, paired_rounds(blocks, planes, tiles), 1};
}

}  // namespace

TEST_CASE("every work tile is taken once, whatever the numbers") {
  for (const int blocks : {1, 2, 7, 132}) {
    for (const int planes : {1, 2, 3, 8, 33, 128}) {
      for (const int tiles : {1, 2, 3, 4, 5, 11, 16, 64, 65}) {
        CAPTURE(blocks);
        CAPTURE(planes);
        CAPTURE(tiles);
        for (const auto& schedule :
             {ForwardSchedule{blocks, planes, tiles, -1, 1}, falling(blocks, planes, tiles)}) {
          const Shares shares = share_out(schedule);
          CHECK(std::ranges::count(shares.had, 1) == planes * tiles);
        }
      }
    }
  }
}

TEST_CASE("elements of the batch take turns with their planes, and nothing is lost") {
  ForwardSchedule schedule{7, 12, 2, -1, 4};  // three heads
  std::vector<int> planes;
  for (int block = 0; block < 7; ++block) planes.push_back(schedule.work(block, 0).plane);
  CHECK(planes == std::vector<int>{0, 0, 3, 3, 6, 6, 9});
  for (const int turns : {-1, paired_rounds(7, 12, 2)}) {
    schedule.paired_rounds = turns;
    CHECK(std::ranges::count(share_out(schedule).had, 1) == 24);
  }
}

TEST_CASE("falling costs are shared out evenly") {
  struct Case {
    int planes, tiles;
    double most;  // of the busiest block's cost over the mean
  };
  // The causal rows of bench/shapes on 132 SMs, tiles of 128 and of 192 rows.
  for (const auto& [planes, tiles, most] :
       {Case{32, 64, 1.03}, Case{128, 16, 1.03}, Case{512, 4, 1.06}, Case{64, 43, 1.04},
        Case{256, 11, 1.04}, Case{256, 4, 1.04}, Case{64, 16, 1.04}}) {
    const Shares shares = share_out(falling(132, planes, tiles));
    const double mean = planes * tiles * (tiles + 1) / 2.0 / 132;
    CAPTURE(planes);
    CAPTURE(tiles);
    CHECK(*std::ranges::max_element(shares.costs) <= most * mean);
  }
}

TEST_CASE("where nearly everybody gets a pair in the last turn, all turns are of pairs") {
  CHECK(paired_rounds(132, 256, 4) == 4);  // 512 pairs: 3 turns and 116 of 132
  CHECK(paired_rounds(132, 512, 4) == 6);  // 1024 pairs: 7 turns and 100
  CHECK(paired_rounds(132, 128, 4) == 0);  // 256 pairs: a turn and 124
  // So thread blocks are at the same planes at the same time, two by two.
  const ForwardSchedule schedule = falling(132, 256, 4);
  for (int round = 0; round < 8; ++round) {
    for (int block = 0; block < 132; ++block) {
      const ForwardWork work = schedule.work(block, round);
      const int pair = round / 2 * 132 + block;
      if (pair < 512) {
        CHECK(work.plane / 2 == pair / 4);
      } else {
        CHECK(work.plane == ForwardWork::kNothing);
      }
    }
  }
}
