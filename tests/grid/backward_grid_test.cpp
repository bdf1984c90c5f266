// As forward_grid_test.cpp, for tests/assets/backward_grid.json.
#include "grid_jobs.hpp"

using namespace attnjit;

TEST_CASE("configuration 0 of backwards compiles without a spill for every pair of choices") {
  CHECK(test::grid_rows("backward_grid.json").size() >= 30);  // pairs of (bias, mask) need as many
  test::expect_sound(test::backward_grid());
}
