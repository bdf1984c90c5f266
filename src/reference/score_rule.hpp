#pragma once
#include <array>
#include <cstdint>
#include <optional>

#include "attnjit/forward.hpp"
#include "reference/block_table.hpp"
#include "reference/key_counts.hpp"
#include "reference/pair_expression.hpp"
#include "reference/plane_order.hpp"

namespace attnjit::reference {

/// Keys begin <= j < end.
struct KeyRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// The smallest range that holds both; an empty one adds nothing.
KeyRange unite(KeyRange a, KeyRange b);

/// A mask or bias whose broadcast axes have stride 0.
struct BroadcastView {
  const void* data = nullptr;
  DType dtype = DType::kBool;
  std::array<std::int64_t, 4> strides{};
  PlaneIndex plane_of;               ///< of a batch element
  std::int64_t heads_per_plane = 1;  ///< query heads that share a plane

  /// `q` tells how many batch elements and query heads there are.
  BroadcastView(const Tensor& tensor, const PlaneOrder& order, const Tensor& q);

  /// Element offset of key 0 for a (batch, query head, query).
  std::int64_t row_offset(std::int64_t batch, std::int64_t head, std::int64_t query) const {
    return plane_of(batch) * strides[0] + head / heads_per_plane * strides[1] + query * strides[2];
  }
};

/// Which keys a row keeps, from everything in `args` but the scores. Rows and keys are those of
/// one batch element. Holds pointers into args' tensors.
class ScoreRule {
 public:
  /// `first_batch` is what expressions call batch element 0.
  explicit ScoreRule(const ForwardArgs& args, std::int64_t first_batch = 0);

  /// Rows and keys in use: seqlens clamped to [0, L], or L.
  std::int64_t rows_in_use(std::int64_t batch) const;
  std::int64_t keys_in_use(std::int64_t batch) const;

  /// The key of row 0 on the diagonal.
  std::int64_t diagonal(std::int64_t batch) const;

  /// Keys that causal, window and seqlens leave to a row; empty for a row that is not in use.
  KeyRange band(std::int64_t batch, std::int64_t query) const;

  /// keep[j - begin] = 1 if the row keeps key j, else 0, for begin <= j < end. Returns whether it
  /// keeps any.
  bool keep(std::int64_t batch, std::int64_t head, std::int64_t query, KeyRange keys,
            std::uint8_t* keep) const;

  /// The number of times that a pair counts whose key is kept: once, or as often as the key is
  /// selected.
  std::int64_t times(std::int64_t batch, std::int64_t head, std::int64_t key) const {
    return selected_ ? selected_->at(batch, head / group_, key) : 1;
  }
  const std::optional<KeyCounts>& selected() const { return selected_; }

  const std::optional<BroadcastView>& mask() const { return mask_; }
  const std::optional<BroadcastView>& bias() const { return bias_; }
  const std::optional<PairExpression>& score() const { return score_; }
  PairExpression::Lengths lengths(std::int64_t batch) const {
    return {diagonal(batch), rows_in_use(batch), keys_in_use(batch)};
  }

 private:
  /// Whether the mask over the last keys in use, if there is one, keeps `key`.
  bool in_tree(std::int64_t batch, std::int64_t query, std::int64_t key) const;
  void apply_mask(std::int64_t batch, std::int64_t head, std::int64_t query, KeyRange keys,
                  std::uint8_t* keep) const;
  /// The lists of blocks, and inside them the keep expression.
  void apply_expression(std::int64_t batch, std::int64_t head, std::int64_t query, KeyRange keys,
                        std::uint8_t* keep) const;

  std::int64_t seqlen_q_;
  std::int64_t seqlen_kv_;
  const std::int32_t* seqlens_q_;
  const std::int32_t* seqlens_kv_;
  std::int64_t offset_;               // of the diagonal
  std::optional<std::int64_t> left_;  // absent: open
  std::optional<std::int64_t> right_;
  bool bottom_right_;
  std::int64_t most_queries_, most_keys_;  // that mask, bias and lists have; others are dropped
  std::optional<BroadcastView> mask_;
  std::optional<BroadcastView> bias_;
  std::optional<BroadcastView> tail_mask_;
  std::optional<PairExpression> score_, keep_;
  std::optional<BlockTable> blocks_;
  std::optional<KeyCounts> selected_;
  std::int64_t group_;  // query heads of a kv head
};

}  // namespace attnjit::reference
