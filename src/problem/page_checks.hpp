#pragma once
// Rules for paged keys and for masks over the last keys in use. As checks.hpp.
#include <limits>

#include "problem/checks.hpp"

namespace attnjit::problem::checks {

// Whether keys are paged. The table of no batch element may have no address.
inline bool has_pages(const ForwardArgs& args) {
  return args.block_table != nullptr || (args.q.shape[0] == 0 && args.max_pages > 0);
}

// Refuses what does not go with a block table, and what it lacks.
inline void check_block_table(const ForwardArgs& args) {
  if (!has_pages(args)) {
    if (args.max_pages == 0 && args.block_table_stride == 0) return;
    reject("max_pages, block_table_stride: {} and {} without block_table; expected 0",
           args.max_pages, args.block_table_stride);
  }
  check_aligned_pointer("block_table", args.block_table);
  if (args.cu_seqlens_kv != nullptr) {
    reject(
        "cu_seqlens_kv: given together with block_table; paged keys do not lie one sequence after "
        "another: "
        "leave it out, and give seqlens_kv");
  }
  if (args.seqlens_kv == nullptr && args.q.shape[0] != 0) {
    reject(
        "seqlens_kv: null with block_table; expected the keys in use of each batch element or "
        "sequence");
  }
}

// The sizes of the pool and the table: k's batch axis is that of the pages.
inline void check_pages(const ForwardArgs& args, Problem& p) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  p.num_pages = checked_size("k", 0, args.k.shape[0], 1, kMax);
  p.page_size = checked_size("k", 2, args.k.shape[2], 1, kMaxSeqlen);
  const std::int64_t most = kMaxSeqlen / p.page_size;
  if (args.max_pages < 0 || args.max_pages > most) {
    reject("max_pages: {}; expected 0 to {} pages of {} keys", args.max_pages, most, p.page_size);
  }
  if (args.block_table_stride < args.max_pages) {
    reject("block_table_stride: {}; expected at least max_pages, {}", args.block_table_stride,
           args.max_pages);
  }
  p.seqlen_kv = static_cast<std::int32_t>(args.max_pages) * p.page_size;
  p.table_stride = p.batch == 1 ? 0 : args.block_table_stride;
}

inline void check_tail_mask(const ForwardArgs& args, Problem& p) {
  if (!args.tail_mask) return;
  const Tensor& mask = *args.tail_mask;
  if (p.packed) {
    reject("tail_mask: given together with cu_seqlens_q; it has a column for each query of a batch's q");
  }
  if (mask.dtype != DType::kBool) {
    reject("tail_mask: dtype is {}; expected bool (true = keep)", name(mask.dtype));
  }
  expect_axis("tail_mask", "batch", mask.shape[0], p.batch, "batch of q");
  expect_size("tail_mask", mask, 1, 1, "one for all heads");
  expect_size("tail_mask", mask, 2, p.seqlen_q, "q's sequence");
  if (mask.shape[3] != p.seqlen_q) {
    reject("tail_mask: key axis is {}; expected {} (q's sequence)", mask.shape[3], p.seqlen_q);
  }
  check_memory("tail_mask", mask);
  const auto stride = [&](int axis) { return mask.shape[axis] <= 1 ? 0 : mask.strides[axis]; };
  p.tail_mask = {!empty_tensor(mask), stride(0), stride(2), stride(3)};
}

}  // namespace attnjit::problem::checks
