#include "reference/block_table.hpp"

#include <algorithm>

namespace attnjit::reference {
namespace {

std::int64_t key_blocks(const BlockLists& lists, std::int64_t num_keys) {
  if (lists.num_kv_blocks != 0) return lists.num_kv_blocks;
  return (num_keys + lists.block_kv - 1) / lists.block_kv;
}

std::int32_t element(const Tensor& tensor, std::int64_t batch, std::int64_t head, std::int64_t row,
                     std::int64_t entry) {
  return static_cast<const std::int32_t*>(
      tensor.data)[batch * tensor.strides[0] + head * tensor.strides[1] + row * tensor.strides[2] +
                   entry * tensor.strides[3]];
}

// Calls visit(batch, head, row block, count as it is, count clamped) for each list.
template <class Visit>
void for_each_list(const Tensor& indices, const Tensor& counts, Visit visit) {
  const auto& [batches, heads, rows, most] = indices.shape;
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    for (std::int64_t head = 0; head < heads; ++head) {
      for (std::int64_t row = 0; row < rows; ++row) {
        const std::int64_t count = element(counts, batch, head, row, 0);
        visit(batch, head, row, count, std::clamp<std::int64_t>(count, 0, most));
      }
    }
  }
}

}  // namespace

BlockTable::BlockTable(const BlockLists& lists, std::int64_t num_keys, std::int64_t heads_q,
                       std::int64_t first_batch)
    : block_q_(lists.block_q),
      block_kv_(lists.block_kv),
      batches_(lists.indices.shape[0]),
      heads_(lists.indices.shape[1]),
      row_blocks_(lists.indices.shape[2]),
      key_blocks_(key_blocks(lists, num_keys)),
      heads_per_plane_(heads_q / std::max<std::int64_t>(heads_, 1)),
      first_batch_(first_batch),
      uses_(static_cast<std::size_t>(batches_ * heads_ * row_blocks_ * key_blocks_), kDropped) {
  mark(lists.indices, lists.counts, kListed);
  if (lists.full_indices) mark(*lists.full_indices, *lists.full_counts, kFull);
}

void BlockTable::mark(const Tensor& indices, const Tensor& counts, Use use) {
  for_each_list(indices, counts,
                [&](std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t,
                    std::int64_t count) {
                  Use* const line = &uses_[static_cast<std::size_t>(
                      ((batch * heads_ + head) * row_blocks_ + row) * key_blocks_)];
                  for (std::int64_t entry = 0; entry < count; ++entry) {
                    const std::int32_t block = element(indices, batch, head, row, entry);
                    if (block >= 0 && block < key_blocks_) line[block] = use;
                  }
                });
}

BlockTable::Use BlockTable::at(std::int64_t batch, std::int64_t head, std::int64_t query,
                               std::int64_t key) const {
  const std::int64_t plane =
      (batches_ == 1 ? 0 : first_batch_ + batch) * heads_ + head / heads_per_plane_;
  return uses_[static_cast<std::size_t>((plane * row_blocks_ + query / block_q_) * key_blocks_ +
                                        key / block_kv_)];
}

FaultyEntries faulty_entries(const BlockLists& lists, std::int64_t num_keys) {
  const std::int64_t blocks = key_blocks(lists, num_keys);
  FaultyEntries faulty;
  const auto count_in = [&](const Tensor& indices, const Tensor& counts) {
    for_each_list(indices, counts,
                  [&](std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t given,
                      std::int64_t count) {
                    faulty.counts += given != count;
                    for (std::int64_t entry = 0; entry < count; ++entry) {
                      const std::int32_t block = element(indices, batch, head, row, entry);
                      faulty.indices += block < 0 || block >= blocks;
                    }
                  });
  };
  count_in(lists.indices, lists.counts);
  if (lists.full_indices) count_in(*lists.full_indices, *lists.full_counts);
  return faulty;
}

}  // namespace attnjit::reference
