#include "reference/row_block.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "reference/multiply.hpp"
#include "tensor/half.hpp"

namespace attnjit::reference {
namespace {

// softmax(scores) v for one block of rows, in two passes over tiles of keys: scores, then
// exponentials and the product with v. All scores of the block are held at once, so the maximum of
// a row is known before its first exponential.
template <typename Real>
class BlockSolver {
 public:
  BlockSolver(const BlockContext& context, const RowBlock& block);
  void run(const BlockResult& result);

 private:
  static constexpr bool kRounds = sizeof(Real) == sizeof(float);
  static constexpr Real kDropped = ScoreTiles<Real>::kDropped;
  static constexpr Real kUnknown = std::numeric_limits<Real>::quiet_NaN();

  Real* tile_scores(std::int64_t tile) { return scores_.get() + tile * padded_rows_ * kTile; }

  void find_maxima();
  void add_tile(std::int64_t tile);
  void exponentiate(const Real* scores, std::int64_t first_key);
  void write(const BlockResult& result) const;
  Real times(std::int64_t key) const {
    return static_cast<Real>(context_.rule.times(block_.batch, block_.head, key));
  }
  Real round(Real value) const {
    return kRounds ? static_cast<Real>(tensor::round_to(context_.args.q.dtype, value)) : value;
  }

  const BlockContext& context_;
  const RowBlock& block_;
  ScoreTiles<Real> tiles_;
  const std::int64_t rows_;
  const std::int64_t padded_rows_;
  const std::int64_t dim_v_;
  const std::int64_t padded_dim_v_;

  std::vector<Real> values_;             // [tile, padded Dv]
  std::vector<std::uint8_t> tile_dead_;  // [tiles]
  std::vector<Real> weights_;            // [padded rows, tile], unnormalised
  std::vector<std::uint8_t> kept_;       // [padded rows, tile]
  std::vector<Real> accumulator_;        // [padded rows, padded Dv]
  std::vector<Real> maximum_;            // [rows]
  std::vector<Real> sum_;                // [rows]
  std::unique_ptr<Real[]> scores_;       // [tiles, padded rows, tile]
};

template <typename Real>
BlockSolver<Real>::BlockSolver(const BlockContext& context, const RowBlock& block)
    : context_(context),
      block_(block),
      tiles_(context, block),
      rows_(tiles_.rows()),
      padded_rows_(tiles_.padded_rows()),
      dim_v_(context.args.v.shape[3]),
      padded_dim_v_(round_up(dim_v_, kColumnStep)),
      values_(static_cast<std::size_t>(kTile * padded_dim_v_)),
      tile_dead_(static_cast<std::size_t>(tiles_.count())),
      weights_(static_cast<std::size_t>(padded_rows_ * kTile)),
      kept_(weights_.size()),
      accumulator_(static_cast<std::size_t>(padded_rows_ * padded_dim_v_)),
      maximum_(static_cast<std::size_t>(rows_), kDropped),
      sum_(static_cast<std::size_t>(rows_)),
      scores_(std::make_unique_for_overwrite<Real[]>(
          static_cast<std::size_t>(tiles_.count() * padded_rows_ * kTile))) {}

template <typename Real>
void BlockSolver<Real>::run(const BlockResult& result) {
  for (std::int64_t tile = 0; tile < tiles_.count(); ++tile) {
    tile_dead_[tile] = !tiles_.compute(tile, tile_scores(tile));
  }
  find_maxima();
  for (std::int64_t tile = 0; tile < tiles_.count(); ++tile) add_tile(tile);
  write(result);
}

template <typename Real>
void BlockSolver<Real>::find_maxima() {
  for (std::int64_t tile = 0; tile < tiles_.count(); ++tile) {
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
  const KeyRange keys = tiles_.keys(tile);
  exponentiate(tile_scores(tile), keys.begin);
  std::fill(values_.begin() + (keys.end - keys.begin) * padded_dim_v_, values_.end(), Real{0});
  load_rows(context_.args.v, block_.batch, context_.head_kv(block_.head), keys, padded_dim_v_,
            values_.data());
  multiply_add_kept(weights_.data(), kept_.data(), values_.data(), accumulator_.data(),
                    padded_rows_, kTile, padded_dim_v_);
}

// Weights of the tile from its scores; their sum is taken before they are rounded.
template <typename Real>
void BlockSolver<Real>::exponentiate(const Real* scores, std::int64_t first_key) {
  for (std::int64_t row = 0; row < rows_; ++row) {
    const bool dead = maximum_[row] <= static_cast<Real>(kDeadScore);
    Real sum = 0;
    for (std::int64_t column = 0; column < kTile; ++column) {
      const Real score = scores[row * kTile + column];
      const bool kept = score != kDropped;
      const Real weight = dead || !kept ? Real{0} : std::exp(score - maximum_[row]);
      const Real times = kept ? this->times(first_key + column) : Real{0};
      sum += times * weight;
      weights_[row * kTile + column] = times * round(weight);
      kept_[row * kTile + column] = kept;
    }
    sum_[row] += sum;
  }
}

template <typename Real>
void BlockSolver<Real>::write(const BlockResult& result) const {
  const Real sink = static_cast<Real>(context_.sink(block_.head));
  const std::int64_t in_use = context_.rule.rows_in_use(block_.batch);
  for (std::int64_t row = 0; row < rows_; ++row) {
    const bool dead = maximum_[row] <= static_cast<Real>(kDeadScore);
    const Real keys = dead ? kDropped : maximum_[row] + std::log(sum_[row]);
    const bool adds = sink > kDropped && tiles_.query(row) < in_use;
    const Real highest = std::max(keys, sink);
    const Real lse = !adds ? keys
                     : dead
                         ? sink
                         : highest + std::log(std::exp(keys - highest) + std::exp(sink - highest));
    const Real factor = adds && !dead ? std::exp(keys - lse) : Real{1};
    const bool promised = kRounds || !tiles_.rounds_distances(row);
    for (std::int64_t d = 0; d < dim_v_; ++d) {
      const Real value = accumulator_[row * padded_dim_v_ + d] / sum_[row] * factor;
      result.out[row * dim_v_ + d] = dead ? 0.0 : promised ? round(value) : kUnknown;
    }
    result.lse[row] = lse;
    result.row_max[row] = dead ? kDropped : maximum_[row];
    result.score_errors[row] = kScoreTolerance * tiles_.largest_product(row) * tiles_.steepest(row);
    result.dead[row] = dead;
  }
}

}  // namespace

void compute_exact(const BlockContext& context, const RowBlock& block, const BlockResult& result) {
  BlockSolver<double>(context, block).run(result);
}

void compute_rounded(const BlockContext& context, const RowBlock& block,
                     const BlockResult& result) {
  BlockSolver<float>(context, block).run(result);
}

}  // namespace attnjit::reference
