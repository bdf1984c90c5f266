#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "attnjit/block_lists.hpp"
#include "tensor/random.hpp"

namespace attnjit::instance {

struct ProblemSpec;

/// Random lists of blocks. Their text is FILL/ROWS[xKEYS][/AXES]: "random:0.2/64" lists every fifth
/// block of 64 by 64, "random:0.2+0.1/64x128/bg" further ones as full, and each kv head has lists
/// of its own. Fill `faulty` adds what the contract forgives: entries that name no block, repeated
/// ones, counts past the end.
struct BlocksSpec {
  bool is_faulty = false;
  double listed = 0, full = 0;  ///< shares of all blocks; full 0: no full lists
  std::int64_t rows = 0, keys = 0;
  std::string axes = "bh";  ///< b or 1, then h, g or 1
};

/// Throws Error(kInvalidProblem) that says what is expected.
BlocksSpec parse_blocks(std::string_view text);

/// The lists of a problem of `spec`, which has some, whose rows are spec.memory.row_padding apart;
/// without memory.
BlockLists block_lists_view(const ProblemSpec& spec);

/// Writes one list after another, of `indices` and `counts`, which name `share` of the `key_blocks`
/// blocks of keys in a random order. Places behind a list hold what names no block.
void fill_blocks(const Tensor& indices, const Tensor& counts, std::int64_t key_blocks, double share,
                 bool is_faulty, tensor::Random random);

}  // namespace attnjit::instance
