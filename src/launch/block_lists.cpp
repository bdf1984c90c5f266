#include "launch/block_lists.hpp"

#include <algorithm>

#include "launch/grid.hpp"

namespace attnjit::launch {
namespace {

kernel::ListedBlocks kind_of(const problem::BlockList& list, const Tensor& indices,
                             const Tensor& counts, void* listed) {
  kernel::ListedBlocks kind{.indices = static_cast<const kernel::int32*>(indices.data),
                            .counts = static_cast<const kernel::int32*>(counts.data),
                            .index_strides = {},
                            .count_strides = {},
                            .most = list.most,
                            .listed = static_cast<kernel::uint8*>(listed)};
  std::ranges::copy(list.index_strides, kind.index_strides);
  std::copy_n(list.count_strides.begin(), std::size(kind.count_strides), kind.count_strides);
  return kind;
}

}  // namespace

BlockListsLayout block_lists_layout(const problem::Problem& problem) {
  const problem::Blocks& blocks = problem.blocks;
  const std::int64_t kinds = blocks.full.exists ? 2 : 1;
  const bool is_empty = blocks.key_blocks == 0 || !problem.has_rows();
  const std::int64_t lines = is_empty ? 0 : blocks.lines();
  return {.kind_bytes = lines * blocks.line_bytes(),
          .bytes = kinds * lines * blocks.line_bytes(),
          .thread_blocks = kinds * lines};
}

void set_block_lists(const problem::Problem& problem, const attnjit::BlockLists& lists,
                     void* memory, kernel::ExpressionParams<kernel::kMaxExpressionOperands>& keep,
                     kernel::BlockListsParams& prepass) {
  const BlockListsLayout layout = block_lists_layout(problem);
  prepass = {};
  if (layout.bytes == 0) return;
  const problem::Blocks& blocks = problem.blocks;
  void* const full = at_offset<void>(memory, layout.kind_bytes);
  prepass = {.kinds = {kind_of(blocks.listed, lists.indices, lists.counts, memory), {}},
             .lines = blocks.lines(),
             .num_heads = blocks.heads,
             .row_blocks = blocks.row_blocks,
             .key_blocks = blocks.key_blocks,
             .line_bytes = static_cast<kernel::int32>(blocks.line_bytes()),
             .work_taken = nullptr};
  if (blocks.full.exists) {
    prepass.kinds[1] = kind_of(blocks.full, *lists.full_indices, *lists.full_counts, full);
  }
  for (std::size_t n = 0; n < problem.keep->dtypes.size(); ++n) {
    const std::int32_t argument = problem.keep_operands[n].argument;
    if (argument == problem::ExpressionOperand::kListedBlocks) keep.operands[n].data = memory;
    if (argument == problem::ExpressionOperand::kFullBlocks) keep.operands[n].data = full;
  }
}

}  // namespace attnjit::launch
