#include "reference/plane_gradients.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <type_traits>
#include <vector>

#include "reference/gradient_sums.hpp"
#include "reference/multiply.hpp"
#include "tensor/half.hpp"

namespace attnjit::reference {
namespace {

// [rows, kTile] to [kTile, rows].
template <typename T>
void transpose(const T* from, std::int64_t rows, std::vector<T>& to) {
  to.resize(static_cast<std::size_t>(rows * kTile));
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < kTile; ++column) {
      to[column * rows + row] = from[row * kTile + column];
    }
  }
}

// Sums dk and dv of one plane over its query heads and their blocks of rows, in ascending order,
// and dq of each block over its tiles of keys.
template <typename Real>
class PlaneSolver {
 public:
  PlaneSolver(const GradientContext& context, const Plane& plane);
  void run(BackwardResult& result);

 private:
  GradientSums<Real> add_block(const RowBlock& block, GradientTiles<Real>& tiles);
  void load_queries(const RowBlock& block, const GradientTiles<Real>& tiles);
  void add_tile(const GradientTiles<Real>& tiles, KeyRange keys, GradientSums<Real>& dq);
  void add_terms(const GradientTiles<Real>& tiles, KeyRange keys, GradientSums<Real>& dq);

  const GradientContext& context_;
  const ForwardArgs& forward_;
  const Plane plane_;
  const std::int64_t seqlen_kv_;
  const std::int64_t width_;  // D, padded to kColumnStep

  // The last tile may begin at the last key, and a whole tile is added there.
  GradientSums<Real> dk_;                       // [Lk + tile, width]
  GradientSums<Real> dv_;                       // [Lk + tile, padded Dv]
  std::optional<GradientSums<Real>> dv_sizes_;  // the same of |dout|, in the exact arithmetic

  std::vector<Real> queries_;       // [padded rows, width], of the block; 0 in dead rows
  std::vector<Real> dout_sizes_;    // [padded rows, padded Dv], |dout| of the block
  std::vector<Real> keys_;          // [tile, width]
  std::vector<Real> sizes_;         // [padded rows, tile], what p adds to dv_sizes
  std::vector<Real> p_, dqk_;       // [tile, padded rows]
  std::vector<std::uint8_t> kept_;  // [tile, padded rows]
};

template <typename Real>
PlaneSolver<Real>::PlaneSolver(const GradientContext& context, const Plane& plane)
    : context_(context),
      forward_(context.args.forward),
      plane_(plane),
      seqlen_kv_(forward_.k.shape[2]),
      width_(round_up(forward_.q.shape[3], kColumnStep)),
      dk_(seqlen_kv_ + kTile, width_),
      dv_(seqlen_kv_ + kTile, round_up(forward_.v.shape[3], kColumnStep)),
      keys_(static_cast<std::size_t>(kTile * width_)) {
  if constexpr (std::is_same_v<Real, double>) dv_sizes_.emplace(seqlen_kv_ + kTile, dv_.width);
}

template <typename Real>
void PlaneSolver<Real>::run(BackwardResult& result) {
  const DType dtype = forward_.q.dtype;
  const std::int64_t dim = forward_.q.shape[3];
  const std::int64_t seqlen_q = forward_.q.shape[2];
  const std::int64_t group = forward_.q.shape[1] / forward_.k.shape[1];
  const Real scale = static_cast<Real>(context_.scores.scale());
  for (std::int64_t head = plane_.head_kv * group; head < (plane_.head_kv + 1) * group; ++head) {
    for (std::int64_t first = 0; first < seqlen_q; first += kGradientRows) {
      const RowBlock block{plane_.batch, head, first, std::min(first + kGradientRows, seqlen_q)};
      GradientTiles<Real> tiles(context_, block);
      const GradientSums<Real> dq = add_block(block, tiles);
      dq.write(scale, dtype, tiles.rows(), dim, context_.row_index(plane_.batch, head, first),
               result.dq);
    }
  }
  const std::int64_t row = (plane_.batch * forward_.k.shape[1] + plane_.head_kv) * seqlen_kv_;
  dk_.write(scale, dtype, seqlen_kv_, dim, row, result.dk);
  dv_.write(Real{1}, dtype, seqlen_kv_, forward_.v.shape[3], row, result.dv);
  if (dv_sizes_)
    dv_sizes_->write_values(Real{1}, dtype, seqlen_kv_, forward_.v.shape[3], row, result.dv.sizes);
}

template <typename Real>
GradientSums<Real> PlaneSolver<Real>::add_block(const RowBlock& block, GradientTiles<Real>& tiles) {
  GradientSums<Real> dq(tiles.padded_rows(), width_);
  load_queries(block, tiles);
  for (std::int64_t tile = 0; tile < tiles.count(); ++tile) {
    if (tiles.compute(tile)) {
      add_tile(tiles, tiles.keys(tile), dq);
      add_terms(tiles, tiles.keys(tile), dq);
    }
  }
  return dq;
}

template <typename Real>
void PlaneSolver<Real>::load_queries(const RowBlock& block, const GradientTiles<Real>& tiles) {
  queries_.assign(static_cast<std::size_t>(tiles.padded_rows() * width_), Real{0});
  for (std::int64_t row = 0; row < tiles.rows(); ++row) {
    if (!tiles.is_dead(row)) {
      load_row(forward_.q, block.batch, block.head, block.first + row, &queries_[row * width_]);
    }
  }
  if (!dv_sizes_) return;
  dout_sizes_.resize(static_cast<std::size_t>(tiles.padded_rows() * dv_.width));
  std::transform(tiles.dout(), tiles.dout() + dout_sizes_.size(), dout_sizes_.begin(),
                 [](Real value) { return std::fabs(value); });
}

template <typename Real>
void PlaneSolver<Real>::add_tile(const GradientTiles<Real>& tiles, KeyRange keys,
                                 GradientSums<Real>& dq) {
  const std::int64_t rows = tiles.padded_rows();
  std::fill(keys_.begin(), keys_.end(), Real{0});
  load_rows(forward_.k, plane_.batch, plane_.head_kv, keys, width_, keys_.data());
  multiply_add_kept(tiles.dqk(), tiles.kept(), keys_.data(), dq.row(0), rows, kTile, width_);

  transpose(tiles.p(), rows, p_);
  transpose(tiles.dqk(), rows, dqk_);
  transpose(tiles.kept(), rows, kept_);
  multiply_add_kept(dqk_.data(), kept_.data(), queries_.data(), dk_.row(keys.begin), kTile, rows,
                    width_);
  multiply_add_kept(p_.data(), kept_.data(), tiles.dout(), dv_.row(keys.begin), kTile, rows,
                    dv_.width);
  if (dv_sizes_) {
    const Real whole = static_cast<Real>(0.25 / tensor::unit_roundoff(forward_.q.dtype));
    sizes_.resize(static_cast<std::size_t>(rows * kTile));
    for (std::size_t at = 0; at < sizes_.size(); ++at) {
      const Real p = tiles.p()[at];
      const Real lost = p < Real{kSmallestNormal} ? Real{1} : tiles.lost()[at];
      sizes_[at] = tiles.kept()[at] ? p + p * lost * whole : Real{0};
    }
    transpose(sizes_.data(), rows, p_);
    multiply_add_kept(p_.data(), kept_.data(), dout_sizes_.data(), dv_sizes_->row(keys.begin),
                      kTile, rows, dv_.width);
  }
}

// dqk[i, j] goes to dq[i] times k[j], and to dk[j] times q[i]. The slope in it is off by twice as
// much as its argument, which is a score over the cap.
template <typename Real>
void PlaneSolver<Real>::add_terms(const GradientTiles<Real>& tiles, KeyRange keys,
                                  GradientSums<Real>& dq) {
  const double cap = context_.scores.softcap();
  const Real per_score = cap > 0 ? static_cast<Real>(2 * kScoreTolerance / kTermTolerance *
                                                     std::fabs(context_.scores.scale()) / cap)
                                 : Real{0};
  Real key_squares[kTile];
  for (std::int64_t column = 0; column < kTile; ++column) {
    key_squares[column] = square_of(&keys_[column * width_], width_);
  }
  for (std::int64_t row = 0; row < tiles.rows(); ++row) {
    const Real query_square = square_of(&queries_[row * width_], width_);
    const Real dout_square = square_of(tiles.dout() + row * dv_.width, dv_.width);
    for (std::int64_t column = 0; column < keys.end - keys.begin; ++column) {
      const std::int64_t at = row * kTile + column;
      if (!tiles.kept()[at]) {
        continue;
      }
      const Real slope = tiles.slopes()[at];
      const Real term =
          tiles.terms()[at] * slope * counted(tiles.p()[at] * slope) / counted(tiles.p()[at]);
      const Real of_slope =
          per_score * std::sqrt(query_square * key_squares[column]) * std::fabs(tiles.dqk()[at]);
      const Real square = term * term + of_slope * of_slope;
      dq.squares[row] += square * key_squares[column];
      dk_.squares[keys.begin + column] += square * query_square;
      const bool vanishes = tiles.p()[at] < Real{kSmallestNormal};
      const Real p = tiles.p()[at] / Real{kTermTolerance} * (vanishes ? Real{1} : tiles.lost()[at]);
      dv_.squares[keys.begin + column] += p * p * dout_square;
    }
  }
}

}  // namespace

template <typename Real>
void compute_plane(const GradientContext& context, const Plane& plane, BackwardResult& result) {
  PlaneSolver<Real>(context, plane).run(result);
}

template void compute_plane<float>(const GradientContext&, const Plane&, BackwardResult&);
template void compute_plane<double>(const GradientContext&, const Plane&, BackwardResult&);

}  // namespace attnjit::reference
