#include "explain/pairs.hpp"

#include <algorithm>

namespace attnjit::explain {
namespace {

struct Lengths {
  std::int64_t queries = 0, keys = 0;
};

// Those of each batch element or packed sequence.
std::vector<Lengths> lengths(const problem::Problem& problem, const Values& values) {
  const std::int64_t elements = problem.batch;
  const auto of = [](const std::vector<std::int32_t>& begins, std::int64_t total,
                     std::int64_t parts, std::size_t n) {
    if (!begins.empty()) return std::int64_t{begins[n + 1]} - begins[n];
    return total / parts;
  };
  std::vector<Lengths> list(static_cast<std::size_t>(elements),
                            {problem.seqlen_q, problem.seqlen_kv});
  if (!problem.packed) return list;
  for (std::size_t n = 0; n < list.size(); ++n) {
    list[n].queries = of(values.cu_seqlens_q, problem.seqlen_q, elements, n);
    if (!problem.paged()) {
      list[n].keys = of(values.cu_seqlens_kv, problem.seqlen_kv, elements, n);
    }
  }
  return list;
}

// The keys of the queries from `first` to `last`; none where end <= begin.
struct KeyRange {
  std::int64_t begin = 0, end = 0;
};
KeyRange key_range(const problem::Problem& problem, const Lengths& length, std::int64_t first,
                   std::int64_t last) {
  const std::int64_t offset =
      (problem.bottom_right ? length.keys - length.queries : 0) + problem.diagonal_offset;
  KeyRange range{0, length.keys};
  if (problem.bounded_left) range.begin = std::max<std::int64_t>(0, first + offset - problem.left);
  if (problem.bounded_right) range.end = std::min(range.end, last + offset + problem.right + 1);
  return range;
}

// Of one plane.
Pairs count_plane(const problem::Problem& problem, const TileSize& tile, const Lengths& length) {
  Pairs pairs;
  for (std::int64_t row = 0; row < length.queries * tile.heads; row += tile.block_q) {
    const std::int64_t first = row / tile.heads;
    const std::int64_t last = std::min((row + tile.block_q - 1) / tile.heads, length.queries - 1);
    const KeyRange range = key_range(problem, length, first, last);
    if (range.end <= range.begin) continue;
    const auto tiles =
        static_cast<double>((range.end - 1) / tile.block_kv - range.begin / tile.block_kv + 1);
    pairs.tiles += tiles;
    pairs.longest = std::max(pairs.longest, tiles);
  }
  for (std::int64_t row = 0; row < length.queries; ++row) {
    const KeyRange range = key_range(problem, length, row, row);
    pairs.kept += static_cast<double>(std::max<std::int64_t>(0, range.end - range.begin));
  }
  return pairs;
}

}  // namespace

double kept_share(const problem::Problem& problem, const TileSize& tile, const Values& values) {
  const bool drops_tiles =
      problem.mask.extent != problem::Extent::kAbsent || problem.blocks.exist();
  if (!drops_tiles || !values.kept_tiles) return 1;
  return values.kept_tiles(tile.block_q, tile.block_kv);
}

Pairs count_pairs(const problem::Problem& problem, const TileSize& tile, const Values& values) {
  Pairs total;
  const auto heads = static_cast<double>(problem.num_heads_q);
  const auto add = [&](const Pairs& plane, double planes) {
    total.kept += planes * heads * plane.kept;
    total.tiles += planes * heads / tile.heads * plane.tiles;
    total.longest = std::max(total.longest, plane.longest);
  };
  const std::vector<Lengths> elements = lengths(problem, values);
  if (!problem.packed && !elements.empty()) {
    add(count_plane(problem, tile, elements.front()), static_cast<double>(elements.size()));
  } else {
    for (const Lengths& element : elements) add(count_plane(problem, tile, element), 1);
  }
  const double share = kept_share(problem, tile, values);
  total.kept *= share;
  total.tiles *= share;
  total.longest *= share;
  total.walked = total.tiles * tile.block_q * tile.block_kv;
  return total;
}

}  // namespace attnjit::explain
