#pragma once
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace attnjit::torch_library {

using torch::stable::Tensor;

/// The arguments of attnjit::forward, in the order of its schema (python/attnjit/schemas.txt).
struct ForwardInputs {
  static constexpr std::uint64_t kNumArguments = 38;

  /// Takes the values off the dispatcher's stack, whose memory is this function's to free.
  explicit ForwardInputs(StableIValue* stack);

  Tensor q, k, v;
  std::optional<Tensor> mask, bias, sink, alibi_slopes;
  std::optional<Tensor> seqlens_q, seqlens_kv, cu_seqlens_q, cu_seqlens_kv;
  std::optional<Tensor> block_table, tail_mask;
  std::optional<Tensor> block_indices, block_counts, full_block_indices, full_block_counts;
  std::optional<Tensor> key_indices;
  std::optional<std::vector<Tensor>> read;
  std::optional<double> scale;
  bool causal;
  std::int64_t diagonal, window_left, window_right;
  double softcap;
  std::int64_t diagonal_offset;
  std::optional<std::vector<std::int64_t>> prepared_mask, plane_orders;
  std::optional<std::string> score, keep;
  std::vector<std::string> operand_names;
  std::int64_t row_offset, key_offset;
  std::optional<std::vector<std::int64_t>> block_sizes;
  bool need_lse, need_row_max, need_max_logits, sequence_major;
};

}  // namespace attnjit::torch_library
