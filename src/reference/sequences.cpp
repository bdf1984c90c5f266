#include "reference/sequences.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "reference/plane_order.hpp"
#include "tensor/half.hpp"

namespace attnjit::reference {
namespace {

Tensor advanced(Tensor tensor, std::int64_t elements) {
  const std::int64_t width = element_size(tensor.dtype);
  tensor.data = static_cast<std::byte*>(tensor.data) + elements * width;
  return tensor;
}

struct Bounds {
  std::int64_t begin, size;
};

Bounds bounds_of(const std::int32_t* begins, std::int64_t sequence, std::int64_t rows) {
  const auto clamped = [rows](std::int64_t row) { return std::clamp<std::int64_t>(row, 0, rows); };
  const std::int64_t begin = sequence == 0 ? 0 : clamped(begins[sequence]);
  return {begin, std::max(clamped(begins[sequence + 1]) - begin, std::int64_t{0})};
}

std::optional<Tensor> operand_of(const std::optional<Tensor>& operand, const PlaneOrder& order,
                                 const Sequence& sequence, std::int64_t keys,
                                 const ForwardArgs& args) {
  if (!operand) return std::nullopt;
  const PlaneIndex plane_of(operand->shape[0], order, args.num_sequences);
  Tensor own = advanced(*operand, plane_of(sequence.index) * operand->strides[0]);
  own.shape[0] = 1;
  if (packs_keys(*operand, args)) {
    own = advanced(own, sequence.kv_begin * own.strides[3]);
    own.shape[3] = keys;
  }
  return own;
}

}  // namespace

Tensor rows_of(Tensor tensor, std::int64_t begin, std::int64_t size) {
  tensor = advanced(tensor, begin * tensor.strides[2]);
  tensor.shape[2] = size;
  return tensor;
}

bool packs_keys(const Tensor& operand, const ForwardArgs& args) {
  if (is_paged(args)) return false;
  const auto broadcast = [&](int axis) {
    return operand.shape[axis] == 1 || operand.strides[axis] == 0;
  };
  return broadcast(0) && broadcast(2) && !broadcast(3) && operand.shape[3] == args.k.shape[2];
}

std::vector<Sequence> split_sequences(const ForwardArgs& args) {
  std::vector<Sequence> sequences;
  for (std::int64_t b = 0; b < args.num_sequences; ++b) {
    const Bounds q = bounds_of(args.cu_seqlens_q, b, args.q.shape[2]);
    const Bounds kv = is_paged(args) ? Bounds{0, num_keys(args)}
                                     : bounds_of(args.cu_seqlens_kv, b, args.k.shape[2]);
    Sequence sequence{b, q.begin, kv.begin, args};
    ForwardArgs& call = sequence.call;
    call.q = rows_of(args.q, q.begin, q.size);
    call.out = rows_of(args.out, q.begin, q.size);
    if (is_paged(args)) {
      call.block_table += b * args.block_table_stride;
    } else {
      call.k = rows_of(args.k, kv.begin, kv.size);
      call.v = rows_of(args.v, kv.begin, kv.size);
    }
    call.mask = operand_of(args.mask, args.mask_order, sequence, kv.size, args);
    call.bias = operand_of(args.bias, args.bias_order, sequence, kv.size, args);
    call.mask_order = call.bias_order = {};
    if (args.alibi_slopes && args.alibi_slopes->shape[0] > 1) {
      call.alibi_slopes = advanced(*args.alibi_slopes, b * args.alibi_slopes->strides[0]);
      call.alibi_slopes->shape[0] = 1;
    }
    call.lse = nullptr;
    if (args.seqlens_q != nullptr) call.seqlens_q += b;
    if (args.seqlens_kv != nullptr) call.seqlens_kv += b;
    call.cu_seqlens_q = call.cu_seqlens_kv = nullptr;
    call.num_sequences = 0;
    sequences.push_back(std::move(sequence));
  }
  return sequences;
}

}  // namespace attnjit::reference
