// The order in which blocks of rows of packed sequences are worked on.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "attnjit/packed_order.h"

using attnjit::kernel::block_costs;
using attnjit::kernel::BlockCosts;
using attnjit::kernel::PackedOrder;

namespace {

constexpr int kWide = 1 << 29;  // of a band that is open to the left

struct Lengths {
  int queries, keys;
};
const std::vector<Lengths> kLengths = {{0, 5},     {1, 1},     {5, 0},      {128, 128},
                                       {129, 300}, {1000, 64}, {64, 10000}, {777, 777}};
const std::vector<PackedOrder> kOrders = {
    {0, 0, 0, kWide}, {1, 0, 0, kWide},  {1, 1, 0, kWide},     {1, 1, 0, 300},
    {0, 1, 0, 300},   {1, 1, 70, kWide}, {1, 1, -4000, kWide}, {1, 0, kWide, kWide}};

}  // namespace

TEST_CASE("packed order: each block has one cost, and costs never fall within a sequence") {
  for (const PackedOrder& order : kOrders) {
    for (const auto& [queries, keys] : kLengths) {
      for (const int heads : {1, 4}) {
        CAPTURE(queries);
        CAPTURE(keys);
        const BlockCosts costs = block_costs(order, queries, keys, 128, heads);
        CHECK(costs.blocks == (queries * heads + 127) / 128);
        CHECK(costs.below(0) == 0);
        CHECK(costs.below(costs.most + 1) == costs.blocks);
        for (int block = 0; block < costs.blocks; ++block) {
          const int cost = costs.cost(block);
          CHECK(cost >= 0);
          CHECK(cost <= costs.most);
          CHECK(costs.below(cost) <= block);
          CHECK(costs.below(cost + 1) > block);
        }
      }
    }
  }
}

TEST_CASE("packed order: costs are the keys that rows see") {
  const PackedOrder causal{1, 1, 0, kWide}, full{0, 0, 0, kWide}, window{1, 1, 0, 256};
  const auto of = [](const PackedOrder& order, int queries, int keys) {
    const BlockCosts costs = block_costs(order, queries, keys, 128, 1);
    std::vector<int> list;
    for (int block = 0; block < costs.blocks; ++block) list.push_back(costs.cost(block));
    return list;
  };
  CHECK(of(causal, 384, 384) == std::vector{1, 2, 3});
  CHECK(of(causal, 384, 640) == std::vector{3, 4, 5});
  CHECK(of(causal, 384, 128) == std::vector{0, 0, 1});
  CHECK(of(full, 384, 640) == std::vector{5, 5, 5});
  CHECK(of(window, 640, 640) == std::vector{1, 2, 3, 3, 3});
}

// Lengths of bench/shapes/packed.json, 16 heads, 132 SMs, tiles of 128 by 128 and two fifths of a
// tile for the start of a block.
TEST_CASE("packed order: dealt out there and back, loads are even") {
  const std::vector<int> uniform = {1390, 3946, 681, 1681, 2730, 261, 360, 3427, 1908};
  const std::vector<int> zipf = {66,  164, 3490, 69,  203,  59,  111, 53,  54,  172, 101, 313, 75,
                                 88,  107, 1726, 98,  150,  287, 493, 138, 70,  119, 67,  156, 115,
                                 345, 57,  86,   191, 65,   63,  181, 383, 60,  76,  80,  132, 82,
                                 73,  71,  55,   78,  84,   230, 431, 93,  56,  62,  95,  61,  215,
                                 690, 127, 123,  575, 1151, 246, 104, 58,  863, 90,  143, 265};
  struct Case {
    const std::vector<int>& lengths;
    bool causal;
    double most;  // of the busiest thread block's load over the mean
  };
  for (const auto& [lengths, causal, most] : {Case{uniform, true, 1.02},
                                              {zipf, true, 1.04},
                                              {uniform, false, 1.04},
                                              {zipf, false, 1.09}}) {
    const PackedOrder order{causal, causal, 0, kWide};
    std::vector<int> costs;
    for (const int length : lengths) {
      const BlockCosts of = block_costs(order, length, length, 128, 1);
      for (int block = 0; block < of.blocks; ++block) {
        costs.insert(costs.end(), 16, 5 * of.cost(block) + 2);
      }
    }
    std::ranges::sort(costs, std::greater());
    std::vector<int> loads(132);
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < costs.size(); ++i) {
      const std::size_t block = i % 132;
      loads[i / 132 % 2 == 0 ? block : 131 - block] += costs[i];
      sum += costs[i];
    }
    CHECK(*std::ranges::max_element(loads) * 132.0 <= most * static_cast<double>(sum));
  }
}
