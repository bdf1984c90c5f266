#include "reference/row_block.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "reference/half.hpp"
#include "reference/multiply.hpp"

namespace attnjit::reference {
namespace {

constexpr std::int64_t kTile = 64;    // keys per tile
constexpr double kDeadScore = -1e38;  // scores at or below count as -inf
static_assert(kTile % kColumnStep == 0);

constexpr std::int64_t round_up(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step * step;
}

// One row of a tensor, widened. The dtype is looked at once per row, not per element.
template <typename Real>
void load_row(const Tensor& tensor, std::int64_t offset, Real* row) {
  const std::int64_t size = tensor.shape[3];
  const std::int64_t stride = tensor.strides[3];
  const auto* bits = static_cast<const std::uint16_t*>(tensor.data) + offset;
  if (tensor.dtype == DType::kBFloat16) {
    for (std::int64_t d = 0; d < size; ++d) row[d] = widen_bfloat16(bits[d * stride]);
  } else if (tensor.dtype == DType::kFloat16) {
    for (std::int64_t d = 0; d < size; ++d) row[d] = widen_float16(bits[d * stride]);
  } else {
    for (std::int64_t d = 0; d < size; ++d) {
      row[d] = static_cast<Real>(load(tensor.data, tensor.dtype, offset + d * stride));
    }
  }
}

std::int64_t row_offset(const Tensor& tensor, std::int64_t batch, std::int64_t head,
                        std::int64_t row) {
  return batch * tensor.strides[0] + head * tensor.strides[1] + row * tensor.strides[2];
}

// softmax(scale q k^T + bias) v for one block of rows, in two passes over tiles of keys: scores,
// then exponentials and the product with v. All scores of the block are held at once, so the
// maximum of a row is known before its first exponential.
//
// A dropped key has score -inf. A kept key's score is never -inf: what counts as -inf is held as
// the lowest finite value, whose exponential is 0 all the same. The two differ when v is not
// finite: a dropped key is skipped, a kept one follows IEEE rules.
template <typename Real>
class BlockSolver {
 public:
  BlockSolver(const BlockContext& context, const RowBlock& block);
  void run(double* out, double* lse);

 private:
  static constexpr bool kRounds = sizeof(Real) == sizeof(float);
  static constexpr Real kDropped = -std::numeric_limits<Real>::infinity();
  static constexpr Real kLowest = std::numeric_limits<Real>::lowest();

  std::int64_t query(std::int64_t row) const { return context_.rows.at(block_.first + row); }
  KeyRange tile_keys(std::int64_t tile) const;
  Real* tile_scores(std::int64_t tile) { return scores_.get() + tile * padded_rows_ * kTile; }

  void load_queries();
  void score_tile(std::int64_t tile);
  bool keep_tile(KeyRange keys);
  void load_keys(KeyRange keys);
  void finish_scores(KeyRange keys, Real* scores);
  void find_maxima();
  void add_tile(std::int64_t tile);
  void exponentiate(const Real* scores);
  bool load_values(KeyRange keys);
  void add_skipping_dropped(const Real* scores, std::int64_t keys);
  void write(double* out, double* lse) const;
  Real round(Real value) const {
    return kRounds ? static_cast<Real>(round_to(context_.args.q.dtype, value)) : value;
  }

  const BlockContext& context_;
  const RowBlock& block_;
  const std::int64_t rows_;
  const std::int64_t padded_rows_;
  const std::int64_t dim_;
  const std::int64_t dim_v_;
  const std::int64_t padded_dim_v_;
  const std::int64_t head_kv_;
  const Real scale_;
  KeyRange range_;
  std::int64_t tiles_;

  std::vector<Real> queries_;            // [padded rows, D]
  std::vector<Real> keys_;               // [D, tile]
  std::vector<Real> values_;             // [tile, padded Dv]
  std::vector<std::uint8_t> keep_;       // [rows, tile]
  std::vector<std::uint8_t> tile_dead_;  // [tiles]
  std::vector<Real> weights_;            // [padded rows, tile], unnormalised
  std::vector<Real> accumulator_;        // [padded rows, padded Dv]
  std::vector<Real> maximum_;            // [rows]
  std::vector<Real> sum_;                // [rows]
  std::unique_ptr<Real[]> scores_;       // [tiles, padded rows, tile]
};

double scale_of(const ForwardArgs& args) {
  return args.scale ? *args.scale : 1.0 / std::sqrt(static_cast<double>(args.q.shape[3]));
}

template <typename Real>
BlockSolver<Real>::BlockSolver(const BlockContext& context, const RowBlock& block)
    : context_(context),
      block_(block),
      rows_(block.end - block.first),
      padded_rows_(round_up(rows_, kRowStep)),
      dim_(context.args.q.shape[3]),
      dim_v_(context.args.v.shape[3]),
      padded_dim_v_(round_up(dim_v_, kColumnStep)),
      head_kv_(block.head / (context.args.q.shape[1] / context.args.k.shape[1])),
      scale_(static_cast<Real>(scale_of(context.args))) {
  for (std::int64_t row = 0; row < rows_; ++row) {
    range_ = unite(range_, context.rule.band(block.batch, query(row)));
  }
  tiles_ = (range_.end - range_.begin + kTile - 1) / kTile;
  queries_.resize(static_cast<std::size_t>(padded_rows_ * dim_));
  keys_.resize(static_cast<std::size_t>(dim_ * kTile));
  values_.resize(static_cast<std::size_t>(kTile * padded_dim_v_));
  keep_.resize(static_cast<std::size_t>(rows_ * kTile));
  tile_dead_.resize(static_cast<std::size_t>(tiles_));
  weights_.resize(static_cast<std::size_t>(padded_rows_ * kTile));
  accumulator_.resize(static_cast<std::size_t>(padded_rows_ * padded_dim_v_));
  maximum_.assign(static_cast<std::size_t>(rows_), kDropped);
  sum_.resize(static_cast<std::size_t>(rows_));
  scores_ = std::make_unique_for_overwrite<Real[]>(
      static_cast<std::size_t>(tiles_ * padded_rows_ * kTile));
}

template <typename Real>
void BlockSolver<Real>::run(double* out, double* lse) {
  load_queries();
  for (std::int64_t tile = 0; tile < tiles_; ++tile) score_tile(tile);
  find_maxima();
  for (std::int64_t tile = 0; tile < tiles_; ++tile) add_tile(tile);
  write(out, lse);
}

template <typename Real>
KeyRange BlockSolver<Real>::tile_keys(std::int64_t tile) const {
  const std::int64_t begin = range_.begin + tile * kTile;
  return {begin, std::min(begin + kTile, range_.end)};
}

template <typename Real>
void BlockSolver<Real>::load_queries() {
  const Tensor& q = context_.args.q;
  for (std::int64_t row = 0; row < rows_; ++row) {
    load_row(q, row_offset(q, block_.batch, block_.head, query(row)), &queries_[row * dim_]);
  }
}

template <typename Real>
void BlockSolver<Real>::score_tile(std::int64_t tile) {
  const KeyRange keys = tile_keys(tile);
  Real* scores = tile_scores(tile);
  tile_dead_[tile] = !keep_tile(keys);
  if (tile_dead_[tile]) {
    return;  // its scores are never looked at
  }
  load_keys(keys);
  std::fill_n(scores, padded_rows_ * kTile, Real{0});
  multiply_add(queries_.data(), keys_.data(), scores, padded_rows_, dim_, kTile);
  finish_scores(keys, scores);
}

template <typename Real>
bool BlockSolver<Real>::keep_tile(KeyRange keys) {
  std::fill(keep_.begin(), keep_.end(), std::uint8_t{0});
  bool any = false;
  for (std::int64_t row = 0; row < rows_; ++row) {
    any |= context_.rule.keep(block_.batch, block_.head, query(row), keys, &keep_[row * kTile]);
  }
  return any;
}

template <typename Real>
void BlockSolver<Real>::load_keys(KeyRange keys) {
  const Tensor& k = context_.args.k;
  std::vector<Real> row(static_cast<std::size_t>(dim_));
  std::fill(keys_.begin(), keys_.end(), Real{0});
  for (std::int64_t j = keys.begin; j < keys.end; ++j) {
    load_row(k, row_offset(k, block_.batch, head_kv_, j), row.data());
    for (std::int64_t d = 0; d < dim_; ++d) {
      keys_[d * kTile + j - keys.begin] = row[d];
    }
  }
}

template <typename Real>
void BlockSolver<Real>::finish_scores(KeyRange keys, Real* scores) {
  const auto& bias = context_.rule.bias();
  for (std::int64_t row = 0; row < rows_; ++row) {
    const std::int64_t bias_row =
        bias ? bias->row_offset(block_.batch, block_.head, query(row)) : 0;
    for (std::int64_t column = 0; column < kTile; ++column) {
      Real& score = scores[row * kTile + column];
      if (!keep_[row * kTile + column]) {
        score = kDropped;
        continue;
      }
      score *= scale_;
      if (bias) {
        const std::int64_t index = bias_row + (keys.begin + column) * bias->strides[3];
        score += static_cast<Real>(load(bias->data, bias->dtype, index));
      }
      if (score <= static_cast<Real>(kDeadScore)) {
        score = kLowest;
      }
    }
  }
}

template <typename Real>
void BlockSolver<Real>::find_maxima() {
  for (std::int64_t tile = 0; tile < tiles_; ++tile) {
    if (tile_dead_[tile]) {
      continue;
    }
    const Real* scores = tile_scores(tile);
    for (std::int64_t row = 0; row < rows_; ++row) {
      Real& maximum = maximum_[row];
      for (std::int64_t column = 0; column < kTile; ++column) {
        const Real score = scores[row * kTile + column];
        // NaN wins and stays.
        maximum = score > maximum || std::isnan(score) ? score : maximum;
      }
    }
  }
}

template <typename Real>
void BlockSolver<Real>::add_tile(std::int64_t tile) {
  if (tile_dead_[tile]) {
    return;
  }
  const KeyRange keys = tile_keys(tile);
  const Real* scores = tile_scores(tile);
  exponentiate(scores);
  if (load_values(keys)) {
    multiply_add(weights_.data(), values_.data(), accumulator_.data(), padded_rows_, kTile,
                 padded_dim_v_);
  } else {
    add_skipping_dropped(scores, keys.end - keys.begin);
  }
}

// Weights of the tile from its scores; their sum is taken before they are rounded.
template <typename Real>
void BlockSolver<Real>::exponentiate(const Real* scores) {
  for (std::int64_t row = 0; row < rows_; ++row) {
    const bool dead = maximum_[row] <= static_cast<Real>(kDeadScore);
    Real sum = 0;
    for (std::int64_t column = 0; column < kTile; ++column) {
      const Real score = scores[row * kTile + column];
      const Real weight = dead || score == kDropped ? Real{0} : std::exp(score - maximum_[row]);
      sum += weight;
      weights_[row * kTile + column] = round(weight);
    }
    sum_[row] += sum;
  }
}

// Returns whether every value of the tile is finite.
template <typename Real>
bool BlockSolver<Real>::load_values(KeyRange keys) {
  const Tensor& v = context_.args.v;
  std::fill(values_.begin(), values_.end(), Real{0});
  Real probe = 0;  // stays 0 unless a value is infinite or NaN
  for (std::int64_t j = keys.begin; j < keys.end; ++j) {
    Real* row = &values_[(j - keys.begin) * padded_dim_v_];
    load_row(v, row_offset(v, block_.batch, head_kv_, j), row);
    for (std::int64_t d = 0; d < dim_v_; ++d) probe += row[d] * Real{0};
  }
  return probe == 0;
}

template <typename Real>
void BlockSolver<Real>::add_skipping_dropped(const Real* scores, std::int64_t keys) {
  for (std::int64_t row = 0; row < rows_; ++row) {
    Real* sums = &accumulator_[row * padded_dim_v_];
    for (std::int64_t column = 0; column < keys; ++column) {
      if (scores[row * kTile + column] == kDropped) {
        continue;
      }
      const Real weight = weights_[row * kTile + column];
      const Real* value = &values_[column * padded_dim_v_];
      for (std::int64_t d = 0; d < dim_v_; ++d) sums[d] += weight * value[d];
    }
  }
}

template <typename Real>
void BlockSolver<Real>::write(double* out, double* lse) const {
  for (std::int64_t row = 0; row < rows_; ++row) {
    const bool dead = maximum_[row] <= static_cast<Real>(kDeadScore);
    for (std::int64_t d = 0; d < dim_v_; ++d) {
      out[row * dim_v_ + d] = dead ? 0.0 : round(accumulator_[row * padded_dim_v_ + d] / sum_[row]);
    }
    lse[row] = dead ? -std::numeric_limits<double>::infinity()
                    : static_cast<Real>(maximum_[row] + std::log(sum_[row]));
  }
}

}  // namespace

void compute_exact(const BlockContext& context, const RowBlock& block, double* out, double* lse) {
  BlockSolver<double>(context, block).run(out, lse);
}

void compute_rounded(const BlockContext& context, const RowBlock& block, double* out, double* lse) {
  BlockSolver<float>(context, block).run(out, lse);
}

}  // namespace attnjit::reference
