#include "reference/rows.hpp"

#include <algorithm>
#include <utility>

#include "tensor/random.hpp"

namespace attnjit::reference {

Rows Rows::only(std::vector<std::int64_t> rows) {
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return {false, std::move(rows)};
}

Rows Rows::sample(std::int64_t seqlen_q, std::int64_t count, std::uint64_t seed) {
  if (seqlen_q <= count) {
    return every();
  }
  const tensor::Random random(seed);
  std::vector<std::int64_t> rows = {0, seqlen_q - 1};
  for (std::uint64_t draw = 0; static_cast<std::int64_t>(rows.size()) < count; ++draw) {
    const std::int64_t row = random.below(draw, seqlen_q);
    const std::int64_t edge = row / 64 * 64;
    // Kernels go wrong at tile edges first, so half of the rows are taken there.
    rows.push_back(draw % 4 == 0   ? edge
                   : draw % 4 == 1 ? std::max<std::int64_t>(edge - 1, 0)
                                   : row);
  }
  return only(std::move(rows));
}

}  // namespace attnjit::reference
