#pragma once
#include <cstdint>
#include <vector>

#include "attnjit/block_lists.hpp"

namespace attnjit::reference {

/// Lists of blocks in host memory, as a table of what they say of each block.
class BlockTable {
 public:
  enum Use : std::uint8_t {
    kDropped,
    kListed,  ///< the call's keep expression holds inside
    kFull,    ///< it is not looked at
  };

  /// `num_keys` are those of the tensor, `heads_q` the query heads. The lists of batch element b
  /// are those of first_batch + b.
  BlockTable(const BlockLists& lists, std::int64_t num_keys, std::int64_t heads_q,
             std::int64_t first_batch);

  /// Of a row and a key that have blocks: row < queries(), key < keys().
  Use at(std::int64_t batch, std::int64_t head, std::int64_t query, std::int64_t key) const;

  std::int64_t queries() const { return row_blocks_ * block_q_; }
  std::int64_t keys() const { return key_blocks_ * block_kv_; }

 private:
  void mark(const Tensor& indices, const Tensor& counts, Use use);

  std::int64_t block_q_, block_kv_;
  std::int64_t batches_, heads_, row_blocks_, key_blocks_;
  std::int64_t heads_per_plane_, first_batch_;
  std::vector<Use> uses_;  // [batches][heads][row blocks][key blocks]
};

/// How many entries in use name no block, and how many counts lie outside of their lists.
struct FaultyEntries {
  std::int64_t indices = 0, counts = 0;
};
FaultyEntries faulty_entries(const BlockLists& lists, std::int64_t num_keys);

}  // namespace attnjit::reference
