#include "problem/block_checks.hpp"

#include <algorithm>
#include <vector>

#include "expr/blocks.hpp"
#include "problem/checks.hpp"

namespace attnjit::problem {
namespace {

using namespace checks;

constexpr std::int64_t kLongestAxis = std::numeric_limits<std::int32_t>::max();

std::int32_t checked_block(const char* what, std::int64_t size) {
  if (size < 1 || size > kMaxSeqlen)
    reject("blocks.{}: {}; expected 1 to {}", what, size, kMaxSeqlen);
  return static_cast<std::int32_t>(size);
}

void check_list(const char* what, const Tensor& tensor) {
  if (tensor.dtype != DType::kInt32) {
    reject("{}: dtype is {}; expected int32", what, name(tensor.dtype));
  }
  check_memory(what, tensor);
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Refuses axes in which indices, counts and full lists differ.
void check_axes(const char* what, const Tensor& tensor, const Blocks& blocks, const Problem& p) {
  const std::int64_t planes = tensor.shape[0], heads = tensor.shape[1], rows = tensor.shape[2];
  if (planes != 1 && planes != p.batch) {
    reject("{}: batch axis is {}; expected 1 or {} ({})", what, planes, p.batch,
           p.packed ? "sequences" : "batch of q");
  }
  if (heads != 1 && heads != p.num_heads_kv && heads != p.num_heads_q) {
    reject("{}: head axis is {}; expected 1, {} (kv heads) or {} (query heads)", what, heads,
           p.num_heads_kv, p.num_heads_q);
  }
  if (rows != blocks.row_blocks) {
    reject("{}: axis of row blocks is {}; expected {} ({})", what, rows, blocks.row_blocks,
           p.packed ? "that of blocks.indices" : "Lq / block_q, rounded up");
  }
  if (planes != blocks.batches || heads != blocks.heads) {
    reject("{}: batch and head axis are {} and {}; expected {} and {} (those of blocks.indices)",
           what, planes, heads, blocks.batches, blocks.heads);
  }
}

BlockList canonical(const char* what_indices, const Tensor& indices, const char* what_counts,
                    const Tensor& counts, const Blocks& blocks, const Problem& p) {
  check_list(what_indices, indices);
  check_list(what_counts, counts);
  check_axes(what_indices, indices, blocks, p);
  check_axes(what_counts, counts, blocks, p);
  if (indices.shape[3] < 0 || indices.shape[3] > kLongestAxis) {
    reject("{}: last axis is {}; expected 0 to {} entries of a list", what_indices,
           indices.shape[3], kLongestAxis);
  }
  if (counts.shape[3] != 1) {
    reject("{}: last axis is {}; expected 1", what_counts, counts.shape[3]);
  }
  BlockList list{.exists = true, .most = static_cast<std::int32_t>(indices.shape[3])};
  for (std::size_t axis = 0; axis < 4; ++axis) {
    list.index_strides[axis] = indices.shape[axis] <= 1 ? 0 : indices.strides[axis];
    list.count_strides[axis] = counts.shape[axis] <= 1 ? 0 : counts.strides[axis];
  }
  return list;
}

std::int32_t checked_key_blocks(const BlockLists& lists, const Blocks& blocks, const Problem& p) {
  const std::int64_t all = ceil_div(p.seqlen_kv, blocks.block_kv);
  const std::int64_t given = lists.num_kv_blocks;
  const std::int64_t most = p.packed ? kMaxSeqlen : all;
  if (given < 0 || given > most || (given != 0 && !p.packed && given != all)) {
    reject("blocks.num_kv_blocks: {}; expected {}", given,
           p.packed ? fmt::format("0 to {}", most)
                    : fmt::format("0 or {} (Lk / block_kv, rounded up)", all));
  }
  return static_cast<std::int32_t>(given == 0 ? all : given);
}

// A byte for each block, see launch::BlockListsLayout.
ExpressionOperand operand_of(const Blocks& blocks, std::int32_t argument) {
  const std::int64_t line = blocks.line_bytes(), plane = blocks.row_blocks * line;
  return {.argument = argument,
          .dtype = DType::kBool,
          .rank = 4,
          .sizes = {blocks.batches, blocks.heads, blocks.row_blocks, blocks.key_blocks},
          .strides = {blocks.batches == 1 ? 0 : blocks.heads * plane, blocks.heads == 1 ? 0 : plane,
                      blocks.row_blocks == 1 ? 0 : line, blocks.key_blocks == 1 ? 0 : 1}};
}

// The keep expression of the caller's, which holds inside the blocks.
void compose(const Blocks& blocks, Problem& p) {
  std::optional<expr::Expr> own;
  if (p.keep) own = p.keep->expression.numbered();
  // A list that query heads of a kv head share is one list of a tile that packs them.
  const bool per_query_head = blocks.heads == p.num_heads_q && blocks.heads != p.num_heads_kv;
  const expr::Expr kept =
      expr::within_blocks(own, {.rows = blocks.block_q,
                                .keys = blocks.block_kv,
                                .head = per_query_head ? expr::Index::kHeadQ : expr::Index::kHeadKv,
                                .has_full = blocks.full.exists});
  ExpressionOperands operands;
  std::vector<DType> dtypes;
  for (const expr::OperandDeclaration& operand : kept.operands()) {
    ExpressionOperand& o = operands[dtypes.size()];
    if (operand.name == expr::kListedBlocks) {
      o = operand_of(blocks, ExpressionOperand::kListedBlocks);
    } else if (operand.name == expr::kFullBlocks) {
      o = operand_of(blocks, ExpressionOperand::kFullBlocks);
    } else {
      o = p.keep_operands[std::stoul(operand.name)];
    }
    dtypes.push_back(o.dtype);
  }
  p.caller_keep = p.keep;
  p.keep = expr::Ref::of(expr::Kind::kKeep, kept, std::move(dtypes));
  p.keep_operands = operands;
}

}  // namespace

void check_blocks(const ForwardArgs& args, Problem& p) {
  if (!args.blocks) return;
  const BlockLists& lists = *args.blocks;
  Blocks b{.block_q = checked_block("block_q", lists.block_q),
           .block_kv = checked_block("block_kv", lists.block_kv)};
  const auto& [batches, heads, row_blocks, most] = lists.indices.shape;
  b.batches = static_cast<std::int32_t>(std::clamp<std::int64_t>(batches, -1, kLongestAxis));
  b.heads = static_cast<std::int32_t>(std::clamp<std::int64_t>(heads, -1, kLongestAxis));
  const std::int64_t of_rows = p.packed ? row_blocks : ceil_div(p.seqlen_q, b.block_q);
  if (of_rows < 0 || of_rows > kMaxSeqlen) {
    reject("blocks.indices: axis of row blocks is {}; expected 0 to {}", of_rows, kMaxSeqlen);
  }
  b.row_blocks = static_cast<std::int32_t>(of_rows);
  b.key_blocks = checked_key_blocks(lists, b, p);
  b.listed = canonical("blocks.indices", lists.indices, "blocks.counts", lists.counts, b, p);
  if (lists.full_indices.has_value() != lists.full_counts.has_value()) {
    reject("blocks.full_{}: absent with blocks.full_{}; expected both or none",
           lists.full_indices ? "counts" : "indices", lists.full_indices ? "indices" : "counts");
  }
  if (lists.full_indices) {
    b.full = canonical("blocks.full_indices", *lists.full_indices, "blocks.full_counts",
                       *lists.full_counts, b, p);
  }
  if (p.packed) {
    const auto limit = [](std::int32_t& most_of, std::int64_t size) {
      most_of = static_cast<std::int32_t>(std::min<std::int64_t>(most_of, size));
    };
    limit(p.operand_queries, std::int64_t{b.row_blocks} * b.block_q);
    limit(p.operand_keys, std::int64_t{b.key_blocks} * b.block_kv);
  }
  p.blocks = b;
  compose(b, p);
}

}  // namespace attnjit::problem
