#include "launch/prepared_mask.hpp"

namespace attnjit::launch {

kernel::PackedMaskParams packed_mask(const problem::Problem& problem, const kernel::uint32* words,
                                     const kernel::uint8* classes) {
  const problem::Operand& mask = problem.mask;
  const MaskTiles tiles(mask);
  return {.words = words,
          .classes = classes,
          .words_per_plane = std::int64_t{tiles.rows} * tiles.words_per_row,
          .classes_per_plane = std::int64_t{tiles.q_tiles} * tiles.kv_tiles,
          .planes_per_batch = mask.num_batches > 1 ? mask.num_heads : 0,
          .heads_per_plane = problem.num_heads_q / mask.num_heads,
          .batches_per_plane = problem.batch / mask.num_batches,
          .words_per_row = tiles.words_per_row,
          .num_q_tiles = tiles.q_tiles,
          .num_kv_tiles = tiles.kv_tiles};
}

kernel::PreparedMaskParams prepared_mask(const problem::Problem& problem,
                                         const PreparedMask& mask) {
  const MaskTiles tiles(problem.mask);
  const bool by_keys = problem.mask.extent == problem::Extent::kPerPair && mask.for_backward;
  const PreparedMaskLayout layout(tiles, by_keys);
  const auto words_at = [&](std::int64_t offset) {
    return at_offset<const kernel::uint32>(mask.data, offset);
  };
  return {.packed = packed_mask(problem, words_at(0),
                                at_offset<const kernel::uint8>(mask.data, layout.classes)),
          .key_words = by_keys ? words_at(layout.key_words) : nullptr,
          .key_words_per_plane = std::int64_t{tiles.keys} * tiles.words_per_key,
          .words_per_key = tiles.words_per_key};
}

}  // namespace attnjit::launch
