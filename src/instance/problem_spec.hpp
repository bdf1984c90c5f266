#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attnjit/forward.hpp"
#include "instance/operand_spec.hpp"
#include "tensor/fill.hpp"

namespace attnjit::instance {

/// Memory order of a tensor whose logical axes are (batch, head, sequence, feature).
enum class Layout { kBhsd, kBshd };

/// How the tensors of a problem lie in memory. The defaults are dense and aligned to 256 bytes.
struct MemoryOptions {
  Layout layout = Layout::kBhsd;  ///< of q, k, v, out and their gradients
  std::int64_t base_offset = 0;   ///< elements by which every base pointer misses its alignment
  std::int64_t row_padding = 0;   ///< unused elements after each row, but of lse and seqlens
  bool v_differs = false;         ///< v, dout, dq and dk take the other layout and 8 more elements
                                  ///< of padding
  bool expand_broadcast = false;  ///< broadcast axes of mask and bias get full size and stride 0
  bool expand_dout = false;       ///< dout is one row, at stride 0 over batch, head and row
};

/// A self-contained description of a random problem. Pure data: HostProblem makes it real.
struct ProblemSpec : ScoreOptions {
  DType dtype = DType::kBFloat16;
  std::int64_t batch = 1;
  std::int64_t heads_q = 1;
  std::int64_t heads_kv = 1;
  std::int64_t seqlen_q = 128;
  std::int64_t seqlen_kv = 128;
  std::int64_t head_dim = 64;
  std::int64_t head_dim_v = 0;  ///< 0 = head_dim

  double query_stddev = 1;    ///< of q, whose elements are normal
  bool dominant_key = false;  ///< q gains twice the first key, which then has nearly all the weight
                              ///< of a row; neither packed nor paged

  /// Four letters over (batch, head, query, key), each full or '1': "b11k", "1hqk", "bgqk" (g = one
  /// plane per kv head), "shqk/2" (s = planes that neighbouring batch elements share, here two),
  /// "p1qk/64x1" (p = planes that repeat, here 64 for one element each), "p1qk/64x1x8" (eight of
  /// them by turns, then the next eight), "1h1t" (t = the keys of all packed sequences). Empty =
  /// absent.
  std::string mask;
  std::string bias;
  tensor::MaskKind mask_kind = tensor::MaskKind::kRandom;
  double mask_density = 0.7;
  bool prepare_mask = false;  ///< the mask is prepared first, in a call of its own
  tensor::BiasKind bias_kind = tensor::BiasKind::kNormal;
  std::optional<DType> bias_dtype;  ///< default: dtype

  bool use_sink = false;
  std::optional<DType> sink_dtype;  ///< default: dtype
  std::vector<float> sinks;         ///< by turns of the heads. Empty: drawn at random

  /// Slopes of ALiBi: "h" for one per head, "bh" for one per batch element and head. Empty =
  /// absent.
  std::string alibi;
  std::vector<float> slopes;  ///< by turns. Empty: those of models

  bool use_seqlens_q = false;
  bool use_seqlens_kv = false;
  /// Values to use, [batch]. Empty: drawn at random, with the first full, then (as far as the batch
  /// goes) 0, one past the length and -1, which the contract clamps.
  std::vector<std::int32_t> seqlens_q;
  std::vector<std::int32_t> seqlens_kv;

  /// `batch` sequences lie one after another in tensors [1, H, seqlen, D], those of k and v unless
  /// they are paged.
  bool packed = false;
  /// Where they begin, [batch + 1]. Empty: drawn at random, or pages.
  std::vector<std::int32_t> cu_seqlens_q;
  std::vector<std::int32_t> cu_seqlens_kv;
  /// Rows and keys of a sequence that mask and bias have; default: those of the longest, or of all
  /// pages.
  std::optional<std::int64_t> operand_queries, operand_keys;

  /// Keys of a page: k and v are pools of pages at random places, seqlen_kv is a multiple of it,
  /// and every batch element has a length, all of them without use_seqlens_kv. 0 = not paged.
  std::int64_t page_size = 0;
  std::int64_t shared_pages = 0;  ///< first pages that all batch elements have in common
  /// A random mask over the last keys in use: "b" for one per batch element, "1" for one for all.
  /// Empty = absent.
  std::string tail_mask;

  /// Texts of expressions (docs/reference/expressions.md), empty = absent, and what they read.
  std::string score, keep;
  std::vector<OperandSpec> operands;
  std::string blocks;       ///< text of a BlocksSpec, empty = absent
  std::string key_indices;  ///< text of a KeyIndicesSpec, empty = absent

  /// The backward pass: out and lse are inputs, as the rounded reference computes them. At dead
  /// rows, dout and dlse hold random values (NaN if poison_dropped_keys).
  bool backward = false;
  bool want_dlse = false;
  bool want_dbias = false;           ///< axes of size 1 where the bias's pattern has a '1'
  std::optional<DType> dbias_dtype;  ///< default: the bias's
  bool want_dsink = false;
  std::vector<std::string> grad;  ///< operands whose gradients are wanted, by their names
  bool deterministic = false;
  bool leave_out = false;  ///< out and lse hold poison: a forward runs before the backward

  MemoryOptions memory;
  bool want_lse = true;
  bool want_row_max = false, want_max_logits = false;  ///< a backward leaves them untouched
  bool poison_dropped_keys = false;  ///< NaN and Inf in K and V at keys that must not be read
  std::uint64_t seed = 1;

  std::int64_t tensor_batch() const { return packed ? 1 : batch; }
  bool paged() const { return page_size > 0; }
  bool has_seqlens_kv() const { return use_seqlens_kv || paged(); }
  std::int64_t max_pages() const { return paged() ? seqlen_kv / page_size : 0; }
  /// Of the pool, whatever the lengths are; one at least has no entry.
  std::int64_t num_pages() const { return batch * max_pages() + 1; }
  std::int64_t value_dim() const { return head_dim_v == 0 ? head_dim : head_dim_v; }
  DType score_dtype() const { return bias_dtype.value_or(dtype); }  ///< of the bias
};

/// Throws Error(kInvalidProblem) naming the first field that cannot be made into tensors (negative
/// sizes, heads that do not divide, a malformed pattern, a missing diagonal, a bias of dtype bool).
void validate(const ProblemSpec& spec);

/// Whether the mask of `spec` has a prepared form: it varies over keys, and is not one row of the
/// keys of all packed sequences. Throws Error(kInvalidProblem) for a malformed pattern.
bool can_prepare_mask(const ProblemSpec& spec);

/// Whether `text` is a pattern, whatever the sizes that it stands for.
bool is_pattern(std::string_view text);

/// The order over the batch of the planes of a mask or bias with that pattern, which is well formed
/// or empty.
PlaneOrder pattern_order(std::string_view pattern);

/// The shape that `pattern` gives a mask or bias of `spec`.
/// Throws Error(kInvalidProblem) naming `what` when the pattern is malformed, or the numbers of its
/// s or p do not divide the batch.
std::array<std::int64_t, 4> pattern_shape(const ProblemSpec& spec, std::string_view pattern,
                                          std::string_view what);

/// One line with every field that is not at its default, for test messages.
std::string describe(const ProblemSpec& spec);

}  // namespace attnjit::instance
