#pragma once
#include <cstdint>

#include "attnjit/prepass/block_lists_config.h"
#include "attnjit/score/expression_params.h"
#include "problem/problem.hpp"

namespace attnjit::launch {

/// A call's lists of blocks as keep expressions read them: a byte for each block of keys, in a line
/// of whole 16 bytes for each block of rows, first of the listed blocks and then of the full ones.
struct BlockListsLayout {
  std::int64_t kind_bytes = 0;  ///< of the listed blocks, and as many of the full ones
  std::int64_t bytes = 0;
  std::int64_t thread_blocks = 0;  ///< of the kernel that writes them
};
BlockListsLayout block_lists_layout(const problem::Problem& problem);

/// Gives the operands of `keep`, the parameters of the call's keep expression, the bytes in
/// `memory`, and the kernel that writes them its own parameters. Leaves `keep` as it is where there
/// are no bytes.
void set_block_lists(const problem::Problem& problem, const attnjit::BlockLists& lists,
                     void* memory, kernel::ExpressionParams<kernel::kMaxExpressionOperands>& keep,
                     kernel::BlockListsParams& prepass);

}  // namespace attnjit::launch
