#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "attnjit/forward.hpp"

/// WHAT is to be computed: validated, canonical, and free of any idea of how.
namespace attnjit::problem {

/// Over which axes of a (query, key) plane a mask or bias varies. Batch and head broadcasts are
/// strides only and make no other kernel.
enum class Extent : std::int32_t { kAbsent = 0, kPerQuery = 1, kPerKey = 2, kPerPair = 3 };

/// Whether an operand of that extent differs from key to key, so that the scores must meet it.
constexpr bool varies_over_keys(Extent extent) {
  return extent == Extent::kPerKey || extent == Extent::kPerPair;
}

/// A mask or bias in canonical form: an axis that is broadcast, or whose problem size is 1, has
/// stride 0.
struct Operand {
  Extent extent = Extent::kAbsent;
  DType dtype = DType::kBool;
  std::int64_t batch_stride = 0, head_stride = 0, query_stride = 0, key_stride = 0;  // elements
  std::int32_t num_heads = 1;  ///< distinct head planes: 1, Hkv or Hq
  bool batched = false;        ///< distinct planes per batch element
  bool vectorized = false;     ///< rows are contiguous, 16-byte aligned and so are all strides

  bool operator==(const Operand&) const = default;
};

/// Strides of q, k, v or out over (batch, head, row), in elements; 0 on axes of size 1.
struct RowStrides {
  std::int64_t batch = 0, head = 0, row = 0;
  bool operator==(const RowStrides&) const = default;
};

/// A validated forward problem: everything but the addresses. Two calls with equal problems run
/// the same kernels with the same parameters.
struct Problem {
  DType dtype = DType::kBFloat16;
  std::int32_t batch = 0, num_heads_q = 0, num_heads_kv = 0;
  std::int32_t seqlen_q = 0, seqlen_kv = 0;
  std::int32_t head_dim = 0, head_dim_v = 0;
  RowStrides q, k, v, out;
  bool aligned = false;  ///< q, k, v, out: addresses and strides are multiples of 16 bytes
  Operand mask, bias;
  bool bounded_left = false, bounded_right = false;  ///< window; causal bounds the right at 0
  std::int32_t left = 0, right = 0;                  ///< keys; 0 unless bounded
  bool bottom_right = false;                         ///< false unless bounded
  bool has_seqlens_q = false, has_seqlens_kv = false;
  bool has_lse = false;
  float scale = 1.0f;

  std::int32_t gqa_ratio() const { return num_heads_q / num_heads_kv; }
  bool empty() const { return batch == 0 || seqlen_q == 0; }
  bool operator==(const Problem&) const = default;
};

/// Longest sequence that is accepted: sums of three lengths still fit in 32 bits.
inline constexpr std::int64_t kMaxSeqlen = std::int64_t{1} << 29;

/// Checks `args` against docs/semantics.md and brings them to canonical form. Looks at addresses
/// only for null and alignment; touches no memory. Throws Error(kInvalidProblem) that names the
/// argument, what it has and what is allowed.
Problem make_problem(const ForwardArgs& args);

/// The broadcast pattern of an operand of `problem`, e.g. "1hqk", "b11k", "bgqk" (g: one plane per
/// kv head); "none" if absent.
std::string pattern(const Problem& problem, const Operand& operand);

/// One line that says everything about the problem except its strides, e.g. for error messages.
std::string describe(const Problem& problem);

/// "bf16", "fp16", "fp32", "bool".
const char* name(DType dtype);

}  // namespace attnjit::problem
