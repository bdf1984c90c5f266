#include "reference/gradient_tiles.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/gradient_sums.hpp"
#include "reference/multiply.hpp"

namespace attnjit::reference {
namespace {

// Probabilities are at most 1: fp16 has them times 2^14, where it would lose digits below 2^-14.
template <typename Real>
Real round_probability(DType dtype, Real p) {
  const Real scale = dtype == DType::kFloat16 ? Real{16384} : Real{1};
  return round_if_rounded(dtype, p * scale) / scale;
}

}  // namespace

template <typename Real>
GradientTiles<Real>::GradientTiles(const GradientContext& context, const RowBlock& block,
                                   const ScoreSite* site)
    : context_(context),
      block_(block),
      tiles_(context.scores, block, site),
      dim_v_(context.args.dout.shape[3]),
      padded_dim_v_(round_up(dim_v_, kColumnStep)),
      dout_(static_cast<std::size_t>(padded_rows() * padded_dim_v_)),
      dead_(static_cast<std::size_t>(rows())),
      lse_(dead_.size()),
      delta_(dead_.size()),
      dout_norm_(dead_.size()),
      delta_error_(dead_.size()),
      values_(static_cast<std::size_t>(padded_dim_v_ * kTile)),
      value_norm_(static_cast<std::size_t>(kTile)),
      scores_(static_cast<std::size_t>(padded_rows() * kTile)),
      dp_(scores_.size()),
      slopes_(scores_.size()),
      p_(scores_.size()),
      ds_(scores_.size()),
      dqk_(scores_.size()),
      terms_(scores_.size()),
      lost_(scores_.size()),
      kept_(scores_.size()) {
  for (std::int64_t row = 0; row < rows(); ++row) load_row_state(row);
}

template <typename Real>
void GradientTiles<Real>::load_row_state(std::int64_t row) {
  const std::int64_t query = tiles_.query(row);
  const std::int64_t index = context_.row_index(block_.batch, block_.head, query);
  lse_[row] = static_cast<Real>(context_.lse(index));
  dead_[row] = context_.forward.dead[index];
  if (dead_[row]) {
    return;
  }
  Real* dout = &dout_[row * padded_dim_v_];
  load_row(context_.args.dout, block_.batch, block_.head, query, dout);
  const double* out = &context_.forward.out[index * dim_v_];
  const float* dlse = context_.args.dlse;
  Real dot = 0;
  Real square = 0;
  Real error_square = 0;
  for (std::int64_t d = 0; d < dim_v_; ++d) {
    dot += dout[d] * static_cast<Real>(out[d]);
    square += dout[d] * dout[d];
    const double rounded = tensor::round_to(context_.args.forward.q.dtype, out[d]);
    const Real error = dout[d] * static_cast<Real>(rounded - out[d]);
    error_square += error * error;
  }
  delta_[row] = dlse == nullptr ? dot : dot - static_cast<Real>(dlse[index]);
  dout_norm_[row] = std::sqrt(square);
  delta_error_[row] = std::sqrt(error_square);
}

template <typename Real>
bool GradientTiles<Real>::compute(std::int64_t tile) {
  if (!tiles_.compute(tile, scores_.data(), slopes_.data())) {
    return false;
  }
  load_columns(context_.args.forward.v, block_.batch, context_.scores.head_kv(block_.head),
               keys(tile), values_.data());
  for (std::int64_t column = 0; column < kTile; ++column) {
    Real square = 0;
    for (std::int64_t d = 0; d < dim_v_; ++d) {
      square += values_[d * kTile + column] * values_[d * kTile + column];
    }
    value_norm_[column] = std::sqrt(square);
  }
  std::fill(dp_.begin(), dp_.end(), Real{0});
  multiply_add(dout_.data(), values_.data(), dp_.data(), padded_rows(), padded_dim_v_, kTile);
  for (std::int64_t row = 0; row < rows(); ++row) {
    differentiate(row);
    if (context_.scores.rule.selected()) repeat(row, keys(tile).begin);
  }
  return true;
}

template <typename Real>
void GradientTiles<Real>::differentiate(std::int64_t row) {
  const DType dtype = context_.args.forward.q.dtype;
  for (std::int64_t column = 0; column < kTile; ++column) {
    const std::int64_t at = row * kTile + column;
    kept_[at] = !dead_[row] && scores_[at] != ScoreTiles<Real>::kDropped;
    const Real p = kept_[at] ? std::exp(scores_[at] - lse_[row]) : Real{0};
    p_[at] = round_probability(dtype, p);
    slopes_[at] = round_if_rounded(dtype, slopes_[at]);
    const Real ds = p * (dp_[at] - delta_[row]);
    ds_[at] = kept_[at] ? round_if_rounded(dtype, ds) : Real{0};
    // A pair without a weight adds nothing, whatever its slope.
    const bool counts = kept_[at] && p != 0;
    dqk_[at] = counts ? round_if_rounded(dtype, ds * slopes_[at]) : Real{0};
    const Real product = tiles_.product(row, column) * tiles_.steepest(row);
    lost_[at] = Real{2 * kScoreTolerance} * (product + std::fabs(lse_[row]));
    const Real size = std::hypot(dout_norm_[row] * value_norm_[column],
                                 Real{kDeltaErrors / kTermTolerance} * delta_error_[row],
                                 lost_[at] / Real{kTermTolerance} * (dp_[at] - delta_[row]));
    terms_[at] = kept_[at] ? p * counted(p) * size : Real{0};
  }
}

// Adds up the copies of keys that are selected more than once.
template <typename Real>
void GradientTiles<Real>::repeat(std::int64_t row, std::int64_t first_key) {
  for (std::int64_t column = 0; column < kTile; ++column) {
    const std::int64_t at = row * kTile + column;
    if (!kept_[at]) continue;
    const auto times = static_cast<Real>(
        context_.scores.rule.times(block_.batch, block_.head, first_key + column));
    p_[at] *= times;
    ds_[at] *= times;
    dqk_[at] *= times;
    terms_[at] *= times;
  }
}

template class GradientTiles<float>;
template class GradientTiles<double>;

}  // namespace attnjit::reference
