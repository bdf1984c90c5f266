#include "reference/score_rule.hpp"

#include <algorithm>
#include <cstdlib>

#include "reference/paged.hpp"

namespace attnjit::reference {
namespace {

std::optional<std::int64_t> window_side(std::int64_t side, std::int64_t limit) {
  // A side past every key is as good as open, and adding it could overflow.
  return side < 0 || side > limit ? std::nullopt : std::optional(side);
}

std::int64_t in_use(const std::int32_t* seqlens, std::int64_t batch, std::int64_t length) {
  return seqlens == nullptr ? length : std::clamp<std::int64_t>(seqlens[batch], 0, length);
}

}  // namespace

KeyRange unite(KeyRange a, KeyRange b) {
  if (a.begin >= a.end || b.begin >= b.end) {
    return a.begin < a.end ? a : b;
  }
  return {std::min(a.begin, b.begin), std::max(a.end, b.end)};
}

BroadcastView::BroadcastView(const Tensor& tensor, const PlaneOrder& order, const Tensor& q)
    : data(tensor.data),
      dtype(tensor.dtype),
      strides(tensor.strides),
      plane_of(tensor.shape[0], order, q.shape[0]) {
  for (std::size_t axis = 0; axis < strides.size(); ++axis) {
    if (tensor.shape[axis] == 1) {
      strides[axis] = 0;
    }
  }
  if (tensor.shape[1] > 0) {
    heads_per_plane = std::max<std::int64_t>(q.shape[1] / tensor.shape[1], 1);
  }
}

ScoreRule::ScoreRule(const ForwardArgs& args, std::int64_t first_batch)
    : seqlen_q_(args.q.shape[2]),
      seqlen_kv_(num_keys(args)),
      seqlens_q_(args.seqlens_q),
      seqlens_kv_(args.seqlens_kv),
      offset_(args.diagonal_offset),
      left_(window_side(args.window.left, seqlen_q_ + seqlen_kv_ + std::abs(offset_))),
      right_(args.causal
                 ? std::optional<std::int64_t>(0)
                 : window_side(args.window.right, seqlen_q_ + seqlen_kv_ + std::abs(offset_))),
      bottom_right_(args.diagonal == Diagonal::kBottomRight),
      most_queries_(seqlen_q_),
      most_keys_(seqlen_kv_),
      group_(args.q.shape[1] / args.k.shape[1]) {
  const auto most = [](std::int64_t& number, const Tensor& operand, std::size_t axis) {
    const std::int64_t size = operand.shape[axis];
    if (size != 1) number = std::min(number, size);
  };
  for (const auto* operand : {&args.mask, &args.bias}) {
    if (!*operand) continue;
    most(most_queries_, **operand, 2);
    most(most_keys_, **operand, 3);
  }
  if (args.mask) {
    mask_.emplace(*args.mask, args.mask_order, args.q);
  }
  if (args.bias) {
    bias_.emplace(*args.bias, args.bias_order, args.q);
  }
  if (args.tail_mask) {
    tail_mask_.emplace(*args.tail_mask, PlaneOrder{}, args.q);
  }
  if (args.score) score_.emplace(expr::Kind::kScore, args.score, args, first_batch);
  if (args.keep) keep_.emplace(expr::Kind::kKeep, args.keep, args, first_batch);
  if (args.blocks) {
    blocks_.emplace(*args.blocks, seqlen_kv_, args.q.shape[1], first_batch);
    most_queries_ = std::min(most_queries_, blocks_->queries());
    most_keys_ = std::min(most_keys_, blocks_->keys());
  }
  if (args.key_indices) selected_.emplace(args, first_batch);
}

std::int64_t ScoreRule::rows_in_use(std::int64_t batch) const {
  return in_use(seqlens_q_, batch, seqlen_q_);
}

std::int64_t ScoreRule::keys_in_use(std::int64_t batch) const {
  return in_use(seqlens_kv_, batch, seqlen_kv_);
}

std::int64_t ScoreRule::diagonal(std::int64_t batch) const {
  return offset_ + (bottom_right_ ? keys_in_use(batch) - rows_in_use(batch) : 0);
}

KeyRange ScoreRule::band(std::int64_t batch, std::int64_t query) const {
  const std::int64_t rows = rows_in_use(batch);
  const std::int64_t keys = keys_in_use(batch);
  if (query >= std::min(rows, most_queries_)) {
    return {};
  }
  const std::int64_t middle = query + diagonal(batch);
  const std::int64_t begin = left_ ? std::max<std::int64_t>(middle - *left_, 0) : 0;
  const std::int64_t last = std::min(keys, most_keys_);
  const std::int64_t end = right_ ? std::min(middle + *right_ + 1, last) : last;
  return begin < end ? KeyRange{begin, end} : KeyRange{};
}

bool ScoreRule::in_tree(std::int64_t batch, std::int64_t query, std::int64_t key) const {
  const std::int64_t column = key - keys_in_use(batch) + seqlen_q_;
  if (!tail_mask_ || column < 0 || column >= seqlen_q_) return true;
  const auto* row =
      static_cast<const std::uint8_t*>(tail_mask_->data) + tail_mask_->row_offset(batch, 0, query);
  return row[column * tail_mask_->strides[3]] != 0;
}

bool ScoreRule::keep(std::int64_t batch, std::int64_t head, std::int64_t query, KeyRange keys,
                     std::uint8_t* keep) const {
  const KeyRange seen = band(batch, query);
  bool any = false;
  for (std::int64_t j = keys.begin; j < keys.end; ++j) {
    keep[j - keys.begin] =
        j >= seen.begin && j < seen.end && in_tree(batch, query, j) && times(batch, head, j) > 0;
    any |= keep[j - keys.begin] != 0;
  }
  if (!any || (!mask_ && !keep_ && !blocks_)) {
    return any;
  }
  if (mask_) apply_mask(batch, head, query, keys, keep);
  if (keep_ || blocks_) apply_expression(batch, head, query, keys, keep);
  return std::any_of(keep, keep + (keys.end - keys.begin), [](std::uint8_t k) { return k != 0; });
}

// Only kept keys are looked up: `keys` may reach past the mask's last one.
void ScoreRule::apply_mask(std::int64_t batch, std::int64_t head, std::int64_t query, KeyRange keys,
                           std::uint8_t* keep) const {
  const auto* row =
      static_cast<const std::uint8_t*>(mask_->data) + mask_->row_offset(batch, head, query);
  for (std::int64_t j = keys.begin; j < keys.end; ++j) {
    std::uint8_t& kept = keep[j - keys.begin];
    if (kept != 0) kept = row[j * mask_->strides[3]] != 0;
  }
}

void ScoreRule::apply_expression(std::int64_t batch, std::int64_t head, std::int64_t query,
                                 KeyRange keys, std::uint8_t* keep) const {
  std::optional<PairExpression::Values> values;
  if (keep_) values.emplace(*keep_);
  for (std::int64_t j = keys.begin; j < keys.end; ++j) {
    std::uint8_t& kept = keep[j - keys.begin];
    if (kept == 0) continue;
    const BlockTable::Use use = blocks_ ? blocks_->at(batch, head, query, j) : BlockTable::kListed;
    const bool asks = use == BlockTable::kListed && values;
    kept = use != BlockTable::kDropped &&
           (!asks || values->at({batch, head, query, j}, lengths(batch), 0).holds());
  }
}

}  // namespace attnjit::reference
