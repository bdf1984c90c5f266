#include "runtime/tune/synthetic_pages.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <set>
#include <vector>

#include "unit/forward_fixtures.hpp"

using namespace attnjit;

TEST_CASE("pages of timed launches are used once each, and again where there are too few") {
  ForwardArgs args = test::forward_args();
  test::page_keys(args, 16);
  const problem::Problem all = problem::make_problem(args);
  const std::vector<std::int32_t> table = runtime::synthetic_pages(all);
  CHECK(table.size() == 3 * 15 + 12);
  std::set<std::int32_t> pages;
  for (int b = 0; b < 4; ++b) {
    for (int i = 0; i < 12; ++i) pages.insert(table[b * 15 + i]);
  }
  CHECK(pages.size() == 4 * 12);
  CHECK(*pages.begin() == 0);
  CHECK(*pages.rbegin() < all.num_pages);
  CHECK(table[1] - table[0] > 1);

  args.k.shape[0] = args.v.shape[0] = 3;
  for (const std::int32_t page : runtime::synthetic_pages(problem::make_problem(args))) {
    CHECK((page >= 0 && page < 3));
  }
}
