#include "reference/score_tiles.hpp"

#include <algorithm>
#include <cmath>

#include "reference/multiply.hpp"
#include "tensor/half.hpp"

namespace attnjit::reference {
namespace {

constexpr std::int64_t kRoundedDistance = std::int64_t{1} << 24;  // fp32 rounds what is larger

// 1 - tanh(x)^2, which has no digits where tanh is nearly 1.
template <typename Real>
Real slope_of_tanh(Real x) {
  const Real e = std::exp(-2 * std::abs(x));
  return 4 * e / ((1 + e) * (1 + e));
}

}  // namespace

static_assert(kTile % kColumnStep == 0);

double BlockContext::scale() const {
  return args.scale ? *args.scale : 1.0 / std::sqrt(static_cast<double>(args.q.shape[3]));
}

double BlockContext::sink(std::int64_t head) const {
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  if (!args.sink) return kNone;
  const double sink = tensor::load(args.sink->data, args.sink->dtype, head * args.sink->strides[1]);
  return sink <= kDeadScore ? kNone : sink;
}

double BlockContext::alibi_slope(std::int64_t batch, std::int64_t head) const {
  if (!args.alibi_slopes) return 0;
  const Tensor& slopes = *args.alibi_slopes;
  const std::int64_t element = slopes.shape[0] == 1 ? 0 : batch;
  return tensor::load(slopes.data, slopes.dtype,
                      element * slopes.strides[0] + head * slopes.strides[1]);
}

template <typename Real>
ScoreTiles<Real>::ScoreTiles(const BlockContext& context, const RowBlock& block,
                             const ScoreSite* site)
    : context_(context),
      block_(block),
      padded_rows_(round_up(block.end - block.first, kRowStep)),
      dim_(context.args.q.shape[3]),
      scale_(static_cast<Real>(context.scale())),
      softcap_(static_cast<Real>(context.softcap())),
      slope_(static_cast<Real>(context.alibi_slope(block.batch, block.head))),
      queries_(static_cast<std::size_t>(padded_rows_ * dim_)),
      keys_(static_cast<std::size_t>(dim_ * kTile)),
      keep_(static_cast<std::size_t>(rows() * kTile)),
      query_norms_(static_cast<std::size_t>(rows())),
      key_norms_(static_cast<std::size_t>(kTile)),
      largest_norms_(query_norms_.size()),
      steepest_(query_norms_.size(), Real{1}) {
  if (context.rule.score()) expression_.emplace(*context.rule.score());
  if (site != nullptr) {
    factor_.emplace(site->factor);
    curvature_.emplace(site->curvature);
    curvatures_.resize(keep_.size());
  }
  for (std::int64_t row = 0; row < rows(); ++row) {
    range_ = unite(range_, context.rule.band(block.batch, query(row)));
    load_row(context.args.q, block.batch, block.head, query(row), &queries_[row * dim_]);
    query_norms_[row] = std::fabs(scale_) * std::sqrt(square_of(&queries_[row * dim_], dim_));
  }
  tiles_ = round_up(range_.end - range_.begin, kTile) / kTile;
}

template <typename Real>
KeyRange ScoreTiles<Real>::keys(std::int64_t tile) const {
  const std::int64_t begin = range_.begin + tile * kTile;
  return {begin, std::min(begin + kTile, range_.end)};
}

template <typename Real>
bool ScoreTiles<Real>::rounds_distances(std::int64_t row) const {
  const KeyRange seen = context_.rule.band(block_.batch, query(row));
  const std::int64_t diagonal = query(row) + context_.rule.diagonal(block_.batch);
  const std::int64_t distance =
      std::max(std::abs(diagonal - seen.begin), std::abs(diagonal - (seen.end - 1)));
  return slope_ != 0 && distance >= kRoundedDistance;
}

template <typename Real>
bool ScoreTiles<Real>::compute(std::int64_t tile, Real* scores, Real* slopes) {
  const KeyRange range = keys(tile);
  if (!keep(range)) {
    return false;
  }
  load_columns(context_.args.k, block_.batch, context_.head_kv(block_.head), range, keys_.data());
  std::fill_n(scores, padded_rows_ * kTile, Real{0});
  multiply_add(queries_.data(), keys_.data(), scores, padded_rows_, dim_, kTile);
  measure_keys();
  finish(range, scores, slopes);
  return true;
}

template <typename Real>
void ScoreTiles<Real>::measure_keys() {
  std::fill(key_norms_.begin(), key_norms_.end(), Real{0});
  for (std::int64_t d = 0; d < dim_; ++d) {
    for (std::int64_t column = 0; column < kTile; ++column) {
      const Real element = keys_[d * kTile + column];
      key_norms_[column] += element * element;
    }
  }
  for (Real& norm : key_norms_) norm = std::sqrt(norm);
  for (std::int64_t row = 0; row < rows(); ++row) {
    for (std::int64_t column = 0; column < kTile; ++column) {
      if (!keep_[row * kTile + column]) continue;
      largest_norms_[row] = std::max(largest_norms_[row], key_norms_[column]);
    }
  }
}

template <typename Real>
bool ScoreTiles<Real>::keep(KeyRange keys) {
  std::fill(keep_.begin(), keep_.end(), std::uint8_t{0});
  bool any = false;
  for (std::int64_t row = 0; row < rows(); ++row) {
    any |= context_.rule.keep(block_.batch, block_.head, query(row), keys, &keep_[row * kTile]);
  }
  return any;
}

template <typename Real>
void ScoreTiles<Real>::finish(KeyRange keys, Real* scores, Real* slopes) {
  const PairExpression::Lengths lengths = context_.rule.lengths(block_.batch);
  const auto& bias = context_.rule.bias();
  const bool has_slope = context_.args.alibi_slopes.has_value();
  for (std::int64_t row = 0; row < rows(); ++row) {
    const std::int64_t bias_row =
        bias ? bias->row_offset(block_.batch, block_.head, query(row)) : 0;
    const std::int64_t diagonal = query(row) + context_.rule.diagonal(block_.batch);
    for (std::int64_t column = 0; column < kTile; ++column) {
      Real& score = scores[row * kTile + column];
      if (!keep_[row * kTile + column]) {
        score = kDropped;
        continue;
      }
      score *= scale_;
      Real slope = 1;
      if (expression_) {
        const Pair pair{block_.batch, block_.head, query(row), keys.begin + column};
        slope = static_cast<Real>(expression_->slope_at(pair, lengths, score));
        const Real product = score;
        score = static_cast<Real>(expression_->at(pair, lengths, score).number);
        if (std::isfinite(slope)) steepest_[row] = std::max(steepest_[row], std::abs(slope));
        if (factor_) {
          slope = static_cast<Real>(factor_->at(pair, lengths, product).number);
          curvatures_[row * kTile + column] =
              static_cast<Real>(curvature_->at(pair, lengths, product).number);
        }
      }
      const Real ratio = softcap_ > 0 ? score / softcap_ : Real{0};
      if (softcap_ > 0) score = softcap_ * std::tanh(ratio);
      if (slopes != nullptr) slopes[row * kTile + column] = slope * slope_of_tanh(ratio);
      if (bias) {
        const std::int64_t index = bias_row + (keys.begin + column) * bias->strides[3];
        score += static_cast<Real>(tensor::load(bias->data, bias->dtype, index));
      }
      if (has_slope) {
        score -= slope_ * static_cast<Real>(std::abs(diagonal - keys.begin - column));
      }
      if (score <= static_cast<Real>(kDeadScore)) {
        score = std::numeric_limits<Real>::lowest();
      }
    }
  }
  std::fill(scores + rows() * kTile, scores + padded_rows_ * kTile, kDropped);
}

template class ScoreTiles<float>;
template class ScoreTiles<double>;

}  // namespace attnjit::reference
