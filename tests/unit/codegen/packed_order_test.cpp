// The costs of blocks of rows of packed sequences, and the order in which they are worked on.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "attnjit/packed_work.h"
#include "attnjit/prepass/packed_costs.h"

using attnjit::kernel::bucket_time;
using attnjit::kernel::ceil_div;
using attnjit::kernel::cost_bucket;
using attnjit::kernel::packed_cost;
using attnjit::kernel::packed_position;
using attnjit::kernel::packed_sections;
using attnjit::kernel::PackedCosts;
using attnjit::kernel::PackedPosition;

namespace {

constexpr int kWide = 1 << 29;  // of a band that is open to the left

std::vector<int> costs_of(const PackedCosts& costs, int queries, int keys) {
  std::vector<int> list;
  for (int block = 0; block < ceil_div(queries, 128); ++block) {
    list.push_back(packed_cost(costs, queries, keys, 128, block));
  }
  return list;
}

}  // namespace

TEST_CASE("packed order: costs are the keys that rows see") {
  const PackedCosts causal{1, 1, 0, kWide}, full{0, 0, 0, kWide}, window{1, 1, 0, 256};
  CHECK(costs_of(causal, 384, 384) == std::vector{1, 2, 3});
  CHECK(costs_of(causal, 384, 640) == std::vector{3, 4, 5});
  CHECK(costs_of(causal, 384, 128) == std::vector{0, 0, 1});
  CHECK(costs_of(full, 384, 640) == std::vector{5, 5, 5});
  CHECK(costs_of(full, 384, 0) == std::vector{0, 0, 0});
  CHECK(costs_of(window, 640, 640) == std::vector{1, 2, 3, 3, 3});
  // Diagonals that lie as far out as they can.
  CHECK(costs_of({1, 1, kWide, kWide}, 200, kWide) == std::vector{kWide / 128, kWide / 128});
  CHECK(costs_of({1, 0, -kWide, kWide}, 200, 640) == std::vector{0, 0});
}

TEST_CASE("packed order: buckets rise with costs, a 32nd at a time at most") {
  CHECK(cost_bucket(0) == 0);
  int last = 0;
  for (std::int64_t cost = 1; cost <= kWide + 1; cost += 1 + cost / 70) {
    const int bucket = cost_bucket(static_cast<int>(cost));
    CHECK(bucket >= last);
    CHECK(bucket - last <= 1);
    CHECK((cost > 63 || bucket == cost));
    last = bucket;
  }
  CHECK(cost_bucket(6400) != cost_bucket(6600));
  CHECK(cost_bucket(0x7fffffff) < attnjit::kernel::kCostBuckets);
  for (const int cost : {0, 1, 63, 64, 66, 1 << 20, 63 << 23}) {
    CHECK(bucket_time(cost_bucket(cost)) == static_cast<float>(cost) + 0.5f);
  }
}

TEST_CASE("packed order: positions go by sections, and in them by blocks of rows") {
  std::set<std::pair<unsigned, unsigned>> seen;
  PackedPosition last{0, 0};
  for (unsigned i = 0; i < 5 * 12; ++i) {
    const PackedPosition at = packed_position(i, 5, 4);
    CHECK(at.rank < 5);
    CHECK(at.plane < 12);
    CHECK(at.plane / 4 == i / 20);
    CHECK((at.plane / 4 > last.plane / 4 || at.rank >= last.rank));
    seen.emplace(at.rank, at.plane);
    last = at;
  }
  CHECK(seen.size() == 60);
}

TEST_CASE("packed order: sections are equal, and take longer than their costliest block of rows") {
  CHECK(packed_sections(8, 16, 9.0f) == 8);
  CHECK(packed_sections(8, 16, 7.9f) == 4);
  CHECK(packed_sections(9, 9, 8.0f) == 3);
  CHECK(packed_sections(8, 16, 0.3f) == 1);
  CHECK(packed_sections(1, 7, 100.0f) == 1);
}

// Lengths of bench/shapes/packed.json, 16 heads, 132 SMs, tiles of 128 by 128 and two fifths of a
// tile for the start of a block.
TEST_CASE("packed order: taken one after another, loads are even") {
  const std::vector<int> uniform = {1390, 3946, 681, 1681, 2730, 261, 360, 3427, 1908};
  const std::vector<int> zipf = {66,  164, 3490, 69,  203,  59,  111, 53,  54,  172, 101, 313, 75,
                                 88,  107, 1726, 98,  150,  287, 493, 138, 70,  119, 67,  156, 115,
                                 345, 57,  86,   191, 65,   63,  181, 383, 60,  76,  80,  132, 82,
                                 73,  71,  55,   78,  84,   230, 431, 93,  56,  62,  95,  61,  215,
                                 690, 127, 123,  575, 1151, 246, 104, 58,  863, 90,  143, 265};
  struct Case {
    std::vector<int> lengths;
    bool causal;
    double most;  // of the busiest thread block's load over the mean
  };
  for (const auto& [lengths, causal, most] : {Case{uniform, true, 1.02},
                                              {zipf, true, 1.02},
                                              {uniform, false, 1.03},
                                              {zipf, false, 1.02},
                                              {std::vector<int>(8, 2048), true, 1.03}}) {
    CAPTURE(lengths.size());
    CAPTURE(causal);
    std::vector<int> times;
    for (const int length : lengths) {
      for (const int cost : costs_of({causal, causal, 0, kWide}, length, length)) {
        times.push_back(5 * cost + 2);
      }
    }
    std::ranges::sort(times, std::greater());
    const double rounds = 16.0 * std::accumulate(times.begin(), times.end(), 0) / times[0] / 132;
    const int planes = 16 / packed_sections(8, 16, static_cast<float>(rounds));
    CAPTURE(planes);
    std::vector<int> ends(132);  // of thread blocks; the first one takes the next block of rows
    std::int64_t sum = 0;
    for (unsigned i = 0; i < 16 * times.size(); ++i) {
      const int time = times[packed_position(i, static_cast<unsigned>(times.size()),
                                             static_cast<unsigned>(planes))
                                 .rank];
      *std::ranges::min_element(ends) += time;
      sum += time;
    }
    CHECK(*std::ranges::max_element(ends) * 132.0 <= most * static_cast<double>(sum));
  }
}
