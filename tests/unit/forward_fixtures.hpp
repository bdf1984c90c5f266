#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "attnjit/error.hpp"
#include "attnjit/forward.hpp"
#include "problem/backward_problem.hpp"

namespace attnjit::test {

/// Addresses that differ, are aligned to 4 KiB, and that nobody reads.
template <class T = void>
T* fake_address(std::uintptr_t index) {
  return reinterpret_cast<T*>((index + 1) << 40);
}

/// Sizes of a forward problem, all axes different and none of them 1.
struct Sizes {
  std::int64_t batch = 4, heads_q = 32, heads_kv = 8, seqlen_q = 128, seqlen_kv = 192;
  std::int64_t head_dim = 64, head_dim_v = 128;
  DType dtype = DType::kBFloat16;
};

/// A legal problem of dense tensors: no mask, bias, band, lengths or lse.
inline ForwardArgs forward_args(const Sizes& s = {}) {
  ForwardArgs args;
  args.q =
      Tensor::contiguous(fake_address(0), s.dtype, {s.batch, s.heads_q, s.seqlen_q, s.head_dim});
  args.k =
      Tensor::contiguous(fake_address(1), s.dtype, {s.batch, s.heads_kv, s.seqlen_kv, s.head_dim});
  args.v = Tensor::contiguous(fake_address(2), s.dtype,
                              {s.batch, s.heads_kv, s.seqlen_kv, s.head_dim_v});
  args.out =
      Tensor::contiguous(fake_address(3), s.dtype, {s.batch, s.heads_q, s.seqlen_q, s.head_dim_v});
  return args;
}

/// A mask or bias for `args` with a broadcast pattern such as "b11k" or "1gqk"; s stands for half
/// of the batch. Rows are padded to a multiple of 16 elements, so that it is vectorised whatever
/// the length.
inline Tensor operand(const ForwardArgs& args, std::string_view pattern, DType dtype,
                      std::uintptr_t index = 4) {
  const auto axis = [](char letter, std::int64_t full) { return letter == '1' ? 1 : full; };
  const std::int64_t heads = pattern[1] == 'g' ? args.k.shape[1] : args.q.shape[1];
  Tensor t{
      fake_address(index),
      dtype,
      {axis(pattern[0], args.q.shape[0] / (pattern[0] == 's' ? 2 : 1)), axis(pattern[1], heads),
       axis(pattern[2], args.q.shape[2]), axis(pattern[3], args.k.shape[2])},
      {}};
  const std::int64_t row = (t.shape[3] + 15) / 16 * 16;
  t.strides = {t.shape[1] * t.shape[2] * row, t.shape[2] * row, row, 1};
  return t;
}
inline Tensor mask(const ForwardArgs& args, std::string_view pattern) {
  return operand(args, pattern, DType::kBool, 4);
}
inline Tensor bias(const ForwardArgs& args, std::string_view pattern) {
  return operand(args, pattern, args.q.dtype, 5);
}

/// Makes the keys of `args` pages of `page_size` keys, with a page more than they need.
inline void page_keys(ForwardArgs& args, std::int64_t page_size) {
  args.max_pages = args.k.shape[2] / page_size;
  args.block_table_stride = args.max_pages + 3;
  args.block_table = fake_address<std::int32_t>(30);
  args.seqlens_kv = fake_address<std::int32_t>(8);
  for (Tensor* t : {&args.k, &args.v}) {
    const std::int64_t pages = args.q.shape[0] * args.max_pages + 1;
    *t = Tensor::contiguous(t->data, t->dtype, {pages, t->shape[1], page_size, t->shape[3]});
  }
}

/// Packs the queries of a batch into one row, its elements one after another. After page_keys().
inline void pack_queries(ForwardArgs& args) {
  args.num_sequences = args.q.shape[0];
  args.cu_seqlens_q = fake_address<std::int32_t>(22);
  for (Tensor* t : {&args.q, &args.out}) {
    const auto& [batch, heads, rows, width] = t->shape;
    *t = Tensor::contiguous(t->data, t->dtype, {1, heads, batch * rows, width});
  }
}

/// A mask over the last keys of `args`, one per batch element.
inline Tensor tail_mask(const ForwardArgs& args) {
  return Tensor::contiguous(fake_address(31), DType::kBool,
                            {args.q.shape[0], 1, args.q.shape[2], args.q.shape[2]});
}

/// The message with which make_problem() refuses `args`; empty if it takes them.
template <class Args>
std::string refusal(const Args& args) {
  try {
    problem::make_problem(args);
  } catch (const Error& error) {
    return error.kind() == ErrorKind::kInvalidProblem ? error.what() : "another kind of error";
  }
  return "";
}

}  // namespace attnjit::test
