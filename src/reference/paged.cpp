#include "reference/paged.hpp"

#include <fmt/format.h>

#include <cstring>

#include "attnjit/error.hpp"
#include "reference/score_rule.hpp"
#include "tensor/half.hpp"

namespace attnjit::reference {
namespace {

// [B, H, Lk, D] of the pages that `pool` has.
Tensor copy_pages(const ForwardArgs& args, const Tensor& pool, std::vector<std::byte>& memory) {
  const ScoreRule rule(args);
  const std::int64_t heads = pool.shape[1], page_size = pool.shape[2], width = pool.shape[3];
  const std::int64_t bytes = element_size(pool.dtype);
  const Tensor shape =
      Tensor::contiguous(nullptr, pool.dtype, {args.q.shape[0], heads, num_keys(args), width});
  memory.assign(static_cast<std::size_t>(shape.shape[0] * shape.strides[0] * bytes), {});
  const auto* const from = static_cast<const std::byte*>(pool.data);
  for (std::int64_t batch = 0; batch < shape.shape[0]; ++batch) {
    for (std::int64_t key = 0; key < rule.keys_in_use(batch); ++key) {
      const std::int64_t first =
          page_of(args, batch, key) * pool.strides[0] + key % page_size * pool.strides[2];
      for (std::int64_t head = 0; head < heads; ++head) {
        const std::int64_t to =
            batch * shape.strides[0] + head * shape.strides[1] + key * shape.strides[2];
        std::memcpy(memory.data() + to * bytes, from + (first + head * pool.strides[1]) * bytes,
                    static_cast<std::size_t>(width * bytes));
      }
    }
  }
  Tensor copy = shape;
  copy.data = memory.data();
  return copy;
}

}  // namespace

std::int64_t page_of(const ForwardArgs& args, std::int64_t batch, std::int64_t key) {
  const std::int64_t number = key / args.k.shape[2];
  const std::int64_t page = args.block_table[batch * args.block_table_stride + number];
  if (page >= 0 && page < args.k.shape[0]) return page;
  throw Error(ErrorKind::kInvalidProblem,
              fmt::format("block_table: entry {} of batch element {} is {}; expected 0 to {}",
                          number, batch, page, args.k.shape[0] - 1));
}

UnpagedCall::UnpagedCall(const ForwardArgs& args) : args_(args) {
  args_.k = copy_pages(args, args.k, k_);
  args_.v = copy_pages(args, args.v, v_);
  args_.block_table = nullptr;
  args_.block_table_stride = args_.max_pages = 0;
}

}  // namespace attnjit::reference
