// Expected times, held against the rows that they come from.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>

#include "attnjit/error.hpp"
#include "explain/measurement.hpp"

namespace attnjit::explain {
namespace {

std::string page() {
  std::ifstream stream(std::string(ATTNJIT_SOURCE_DIR) + "/docs/guide/explain.md");
  REQUIRE(stream.good());
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST_CASE("nine measured calls in ten are expected to a fifth, without their own rows") {
  const std::vector<Measurement> rows = built_in_measurements();
  const Rates& rates = *find_rates(kMeasuredDevice);
  REQUIRE(rows.size() > 200);
  const std::string text = page();
  std::size_t misses = 0, listed = 0;
  for (const Measurement& row : rows) {
    const Expected expected = expect(row.profile, rates, rows);
    REQUIRE(expected.own != nullptr);
    for (const Measurement* near : expected.nearest)
      CHECK_FALSE(same_work(near->profile, row.profile));
    const double ratio = expected.ms / row.ms;
    const bool miss = std::abs(ratio - 1) > 0.2;
    misses += miss ? 1 : 0;
    const bool is_listed = text.find("| " + row.name + " |") != std::string::npos;
    listed += is_listed ? 1 : 0;
    CHECK_MESSAGE(miss == is_listed, row.name, ": expected / measured is ", ratio,
                  "; docs/guide/explain.md lists the rows that miss by more than a fifth");
  }
  CHECK(10 * misses <= rows.size());
  CHECK(listed == misses);
}

TEST_CASE("nine times in ten are off by no more than is said of rows at that distance") {
  const std::vector<Measurement> rows = built_in_measurements();
  const Rates& rates = *find_rates(kMeasuredDevice);
  std::map<double, std::pair<int, int>> counts;  // by the error that is said: rows, and further off
  for (const Measurement& row : rows) {
    const Expected expected = expect(row.profile, rates, rows);
    auto& [all, off] = counts[expected.error];
    ++all;
    off += std::abs(expected.ms / row.ms - 1) > expected.error ? 1 : 0;
  }
  CHECK(counts.size() == 4);
  for (const auto& [error, of] : counts) {
    INFO(error, ": ", of.first, " rows, ", of.second, " further off");
    CHECK(10 * of.second <= of.first);
  }
  CHECK(likely_error(0) < likely_error(1));
  CHECK(likely_error(1) < likely_error(2));
  CHECK(likely_error(2) < likely_error(10));
}

TEST_CASE("more work of the same kind takes longer, on a device with slower memory too") {
  const std::vector<Measurement> rows = built_in_measurements();
  Profile profile = rows.front().profile;
  const double once = expect(profile, *find_rates("NVIDIA H200"), rows).ms;
  CHECK(expect(profile, *find_rates("NVIDIA H100 80GB HBM3"), rows).ms > once);
  profile.tensor_flop *= 2;
  profile.exponentials *= 2;
  profile.memory_bytes *= 2;
  CHECK(expect(profile, *find_rates("NVIDIA H200"), rows).ms > 1.5 * once);
  CHECK(find_rates("NVIDIA A100-SXM4-80GB") == nullptr);
}

TEST_CASE("the resource that is busy longest binds") {
  const Rates& rates = *find_rates(kMeasuredDevice);
  Profile profile{.slots = 132, .tensor_flop = 1e12, .memory_bytes = 1e6, .launches = 1};
  CHECK(binding(busy(profile, rates)) == Resource::kTensor);
  profile.memory_bytes = 1e11;
  CHECK(binding(busy(profile, rates)) == Resource::kMemory);
  profile.exponentials = 1e13;
  CHECK(binding(busy(profile, rates)) == Resource::kScores);
  CHECK(binding(busy({.slots = 132, .memory_bytes = 1e3, .launches = 1}, rates)) ==
        Resource::kLaunches);
}

TEST_CASE("a pair of rows makes the change that a call makes, and no other") {
  std::vector<Measurement> rows(3);
  for (Measurement& row : rows) {
    row.ms = 1;
    row.profile = {.path = "wgmma",
                   .dbias = "none",
                   .head_dim = 128,
                   .slots = 132,
                   .tensor_flop = 1e11,
                   .launches = 1};
  }
  rows[0].profile.mask = rows[0].profile.mask_per_pair = true;
  rows[2].profile.softcap = true;
  Profile before = rows[0].profile, after = rows[1].profile;
  before.walked_pairs = after.walked_pairs = 4;
  const auto pair = find_pair(before, after, rows);
  REQUIRE(pair);
  CHECK(pair->before == &rows[0]);
  CHECK(pair->after == &rows[1]);
  CHECK_FALSE(find_pair(before, before, rows));
  rows[1].profile.head_dim = 1;  // far from both
  CHECK_FALSE(find_pair(before, after, rows));
}

TEST_CASE("a line of measurements that cannot be read is named") {
  CHECK(parse_measurements("").empty());
  CHECK_THROWS_WITH_AS(parse_measurements("\n{\"name\": \"a\"}"),
                       doctest::Contains("measurements, line 2"), Error);
}

}  // namespace
}  // namespace attnjit::explain
