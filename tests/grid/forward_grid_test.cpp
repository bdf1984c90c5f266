// Configuration 0 of every family in tests/assets/forward_grid.json, which scripts/covering-grid
// writes so that every pair of choices occurs: it compiles, spills nothing (two rows: little) and
// fits. Every 24th row runs by default.
#include "grid_jobs.hpp"

using namespace attnjit;

TEST_CASE("configuration 0 compiles without a spill: a sample of rows") {
  CHECK(test::grid_rows("forward_grid.json").size() >= 112);  // pairs of (dims, bias) need as many
  test::expect_sound(test::sample(test::forward_grid()));
}
TEST_CASE("slow: configuration 0 compiles without a spill for every pair of choices") {
  test::expect_sound(test::forward_grid());
}
