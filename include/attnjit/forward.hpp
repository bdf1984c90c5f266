#pragma once
#include <cstdint>
#include <optional>
#include <span>

#include "attnjit/block_lists.hpp"
#include "attnjit/expression.hpp"
#include "attnjit/prepared_mask.hpp"
#include "attnjit/tensor.hpp"

namespace attnjit::inline ATTNJIT_CPP_VERSION {

/// Where the diagonal of a causal mask or a window starts when Lq != Lk: off = 0 (top left) or
/// off = Lk - Lq (bottom right). Never guessed: a causal or windowed problem must name it.
enum class Diagonal : std::int32_t { kUnspecified = 0, kTopLeft = 1, kBottomRight = 2 };

/// Keys that query i may see: i + off - left <= j <= i + off + right, inclusive; -1 = open.
struct Window {
  std::int64_t left = -1;   ///< keys before i + off
  std::int64_t right = -1;  ///< keys after i + off
};

/// The order in which batch elements have the n planes over the batch of a mask or bias, where n is
/// neither 1 nor B. Each run of `inner` neighbouring elements shares a plane; runs take `cycle`
/// planes by turns, r = B / (n * inner) times, then the next ones: element b has plane b / (inner *
/// cycle * r) * cycle + (b / inner) % cycle. n * inner divides B, and cycle divides n.
struct PlaneOrder {
  std::int64_t inner = 0;  ///< 0: B / n, so that no plane comes again
  std::int64_t cycle = 0;  ///< 0: n, so that element b has plane (b / inner) % n
};

/// The options of a call's scores that are no tensors.
struct ScoreOptions {
  std::optional<float> scale;    ///< default 1 / sqrt(D); any finite value
  std::optional<float> softcap;  ///< c of c tanh(scale * q k^T / c), before the bias; 0 = none
  bool causal = false;           ///< j <= i + off
  Window window;                 ///< open on both sides by default
  Diagonal diagonal = Diagonal::kUnspecified;  ///< of `causal`, `window` and slopes
  std::int64_t diagonal_offset = 0;            ///< added to off; -2^29 to 2^29
  /// The place of q's and k's rows in a whole of which they are a part, as expressions count them:
  /// added to i and to j, and off to match; -2^29 to 2^29. Nothing else depends on them.
  std::int64_t row_offset = 0, key_offset = 0;  ///< of rows, and of keys
};

/// One attention forward: out = softmax(scale * q k^T + bias, over the kept keys) v.
/// docs/reference/semantics.md is the full contract.
struct ForwardArgs : ScoreOptions {
  Tensor q;    ///< [B, Hq, Lq, D], fp16 or bf16, unit stride over D
  Tensor k;    ///< [B, Hkv, Lk, D], q's dtype; Hq % Hkv == 0
  Tensor v;    ///< [B, Hkv, Lk, Dv], q's dtype
  Tensor out;  ///< [B, Hq, Lq, Dv], q's dtype, allocated by the caller, without overlap
  std::optional<Tensor> mask;  ///< [n, Hq|Hkv|1, Lq|1, Lk|1], kBool, true = keep; n divides B
  std::optional<Tensor> bias;  ///< same shapes as mask; q's dtype or fp32; added to the scores
  std::optional<Tensor> sink;  ///< [1, Hq, 1, 1], q's dtype or fp32: a score without key or value
  /// [B|1, Hq, 1, 1] fp32: -slope * |i + off - j| is added to the scores beside the bias. The
  /// diagonal must be named if Lq != Lk, lengths are given or sequences are packed.
  std::optional<Tensor> alibi_slopes;
  float* lse = nullptr;  ///< optional [B, Hq, Lq] fp32, contiguous, natural logarithm
  /// Optional [B, Hq, Lq] fp32, contiguous: the largest score of each row, -inf where none counts.
  float* row_max = nullptr;
  float* max_logits = nullptr;  ///< optional [Hq] fp32, contiguous: the largest of each head
  const std::int32_t* seqlens_q = nullptr;   ///< optional [B] on the device: rows in use
  const std::int32_t* seqlens_kv = nullptr;  ///< optional [B] on the device: keys in use
  /// Packed sequences, both or none, or the first alone beside a block table: [B + 1] on the
  /// device, where sequence b has rows (keys) from cu[b] to before cu[b + 1]. The batch axis of q,
  /// k, v and out is then 1, lse and row_max are [1, Hq, Tq], and mask and bias are [n, Hq|Hkv|1,
  /// max rows|1, max keys|1] or [1, Hq|Hkv|1, 1, Tk]. Pages stay as they are.
  const std::int32_t* cu_seqlens_q = nullptr;
  const std::int32_t* cu_seqlens_kv = nullptr;  ///< of the keys, as cu_seqlens_q
  std::int64_t num_sequences = 0;               ///< B of packed sequences; else 0
  /// Paged keys, of a forward: k and v are [pages, Hkv, page size, D or Dv], with any strides but
  /// the last, and key j of batch element or packed sequence b is row j % page size of page
  /// block_table[b][j / page size], [B, max_pages] on the device. Lk is max_pages * page size,
  /// seqlens_kv must be given, and what lies at or past it is never read, whatever its entries are.
  const std::int32_t* block_table = nullptr;
  std::int64_t block_table_stride = 0;  ///< elements from row to row, at least max_pages; else 0
  std::int64_t max_pages = 0;           ///< 0 without a block table
  /// [B|1, 1, Lq, Lq], kBool, true = keep, of a forward: column t is key n - Lq + t, where n is
  /// seqlens_kv[b] or Lk. Other keys are not looked at; columns before key 0 are no keys.
  std::optional<Tensor> tail_mask;
  /// In the place of `mask`: the same, as Context::prepare_mask() has written it.
  std::optional<PreparedMask> prepared_mask;
  PlaneOrder mask_order;  ///< of the mask, prepared or not
  PlaneOrder bias_order;  ///< of the bias, and of a dbias with as many planes
  /// A float in place of the scaled score `s`, before softcap, bias and slopes, and a bool that is
  /// true where a row keeps a key, beside mask, band and lengths: docs/reference/expressions.md.
  Expression score, keep;             ///< a float, and a bool
  std::span<const Operand> operands;  ///< that the expressions name; each of them reads some
  std::optional<BlockLists> blocks;   ///< pairs of other blocks are dropped
  /// [B|1, Hkv|1, 1, W], kInt32 or kInt64, any strides: the keys that all rows of a kv head may
  /// see, by their numbers, in any order. Others are not read, and their dk and dv are 0. A key
  /// that is named m times counts m times; a number outside of the keys in use names none, wherever
  /// it stands. Causal, window, mask, bias, slopes and expressions hold at the key's own number.
  /// With neither packed sequences, pages, blocks, a prepared mask nor a dbias.
  std::optional<Tensor> key_indices;
};

}  // namespace attnjit::inline ATTNJIT_CPP_VERSION
