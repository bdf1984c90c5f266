#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "problem/problem.hpp"

namespace attnjit::runtime {

/// Number `i` of an order of `count` pages that has each once, far from its neighbours: by turns of
/// eighths.
inline std::int32_t scattered_page(std::int64_t i, std::int64_t count) {
  constexpr std::int64_t kTurns = 8;
  const std::int64_t eighth = count / kTurns, place = i % count;
  return static_cast<std::int32_t>(
      place < eighth * kTurns ? place % kTurns * eighth + place / kTurns : place);
}

/// A block table for timed launches of a paged problem, with its stride: pages used once as long as
/// there are enough.
inline std::vector<std::int32_t> synthetic_pages(const problem::Problem& p) {
  const std::int64_t pages = p.seqlen_kv / p.page_size;
  std::vector<std::int32_t> table(static_cast<std::size_t>((p.batch - 1) * p.table_stride + pages));
  std::int64_t count = 0;
  for (std::int64_t b = 0; b < p.batch; ++b) {
    for (std::int64_t i = 0; i < pages; ++i) {
      table[static_cast<std::size_t>(b * p.table_stride + i)] =
          scattered_page(count++, p.num_pages);
    }
  }
  return table;
}

}  // namespace attnjit::runtime
