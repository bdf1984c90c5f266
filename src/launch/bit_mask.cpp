#include "launch/bit_mask.hpp"

namespace attnjit::launch {
namespace {

std::int32_t key_blocks(const MaskTiles& tiles) {
  return kernel::ceil_div(tiles.words_per_row, kernel::MaskToBitsConfig::kWords);
}

// Null where the layout has no such bits.
template <class T>
T* words_at(const BitMaskLayout& layout, const void* memory) {
  return layout.orders.by_rows ? at_offset<T>(memory, 0) : nullptr;
}
template <class T>
T* columns_at(const BitMaskLayout& layout, const void* memory) {
  return layout.orders.by_keys ? at_offset<T>(memory, layout.columns) : nullptr;
}

}  // namespace

kernel::MaskToBitsParams mask_to_bits_params(const problem::Operand& mask, const void* data,
                                             const BitMaskLayout& layout, void* memory) {
  const MaskTiles tiles(mask);
  return {.mask = static_cast<const kernel::uint8*>(data),
          .words = words_at<kernel::uint32>(layout, memory),
          .columns = columns_at<kernel::uint64>(layout, memory),
          .classes = at_offset<kernel::uint8>(memory, layout.classes),
          .batch_stride = mask.batch_stride,
          .head_stride = mask.head_stride,
          .query_stride = mask.query_stride,
          .key_stride = mask.key_stride,
          .num_heads = mask.num_heads,
          .seqlen_q = tiles.rows,
          .seqlen_kv = tiles.keys,
          .words_per_row = tiles.words_per_row,
          .num_q_tiles = tiles.q_tiles,
          .num_kv_tiles = tiles.kv_tiles,
          .num_key_blocks = key_blocks(tiles)};
}

std::int64_t mask_to_bits_blocks(const problem::Operand& mask) {
  const MaskTiles tiles(mask);
  return tiles.planes * tiles.q_tiles * key_blocks(tiles);
}

kernel::BackwardMaskParams bit_mask(const problem::Problem& problem, const BitMaskLayout& layout,
                                    const void* memory) {
  const problem::Operand& mask = problem.mask;
  const MaskTiles tiles(mask);
  const kernel::BitMaskParams rows = {
      .words = words_at<const kernel::uint32>(layout, memory),
      .classes = at_offset<const kernel::uint8>(memory, layout.classes),
      .words_per_plane = std::int64_t{tiles.rows} * tiles.words_per_row,
      .classes_per_plane = std::int64_t{tiles.q_tiles} * tiles.kv_tiles,
      .planes_per_batch = mask.num_batches > 1 ? mask.num_heads : 0,
      .heads_per_plane = problem.num_heads_q / mask.num_heads,
      .batches_per_plane = problem.run_length(mask.num_batches, mask.cycle),
      .words_per_row = tiles.words_per_row,
      .num_q_tiles = tiles.q_tiles,
      .num_kv_tiles = tiles.kv_tiles};
  return {.bits = rows, .columns = columns_at<const kernel::uint64>(layout, memory)};
}

}  // namespace attnjit::launch
