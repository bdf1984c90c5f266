#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "attnjit/forward.hpp"
#include "reference/rows.hpp"
#include "reference/score_rule.hpp"
#include "reference/tile.hpp"

namespace attnjit::reference {

/// Scores at or below count as -inf.
inline constexpr double kDeadScore = -1e38;

/// Selected rows first <= position < end of one (batch, query head).
struct RowBlock {
  std::int64_t batch;
  std::int64_t head;
  std::int64_t first;
  std::int64_t end;
};

/// The inputs that all blocks of one call share.
struct BlockContext {
  const ForwardArgs& args;
  const ScoreRule& rule;
  const Rows& rows;

  /// The kv head that a query head reads.
  std::int64_t head_kv(std::int64_t head) const {
    return head / (args.q.shape[1] / args.k.shape[1]);
  }
  double scale() const;
  /// The score of a head that has no key; -inf: none.
  double sink(std::int64_t head) const;
  /// The slope of a head: a score loses it for each key between it and the diagonal. 0 without any.
  double alibi_slope(std::int64_t batch, std::int64_t head) const;
  double softcap() const { return args.softcap.value_or(0.0f); }  ///< 0: none
};

/// A read of an operand by a score expression.
struct ScoreSite {
  PairExpression factor;     ///< the derivative of the score by it
  PairExpression curvature;  ///< that of the factor by s
};

/// scale q k^T, capped, + bias and distance for one block of rows, in tiles of the keys that some
/// row of it may keep.
///
/// A dropped key has score -inf. A kept key's score is never -inf: what counts as -inf is held as
/// the lowest finite value, whose exponential is 0 all the same. The two differ when v is not
/// finite: a dropped key is skipped, a kept one follows IEEE rules.
template <typename Real>
class ScoreTiles {
 public:
  static constexpr Real kDropped = -std::numeric_limits<Real>::infinity();

  /// With `site` the derivatives that compute() writes are not by scale q k^T, but by that read.
  ScoreTiles(const BlockContext& context, const RowBlock& block, const ScoreSite* site = nullptr);

  std::int64_t rows() const { return block_.end - block_.first; }
  std::int64_t padded_rows() const { return padded_rows_; }  ///< a multiple of kRowStep
  std::int64_t count() const { return tiles_; }
  KeyRange keys(std::int64_t tile) const;

  /// The query index of a row of the block.
  std::int64_t query(std::int64_t row) const { return context_.rows.at(block_.first + row); }

  /// Whether a slope is taken off for distances of 2^24 and more, which fp32 rounds: keys that
  /// differ by one may have the same score then, or others, and `out` promises nothing.
  bool rounds_distances(std::int64_t row) const;

  /// Writes `scores` [padded rows, kTile], dropped past the last key, and, unless it is null, their
  /// derivatives by scale q k^T to `slopes`, of the same shape, where keys are kept. Returns false
  /// and writes nothing if no row keeps a key of the tile.
  bool compute(std::int64_t tile, Real* scores, Real* slopes = nullptr);

  /// |scale| |q| |k| of a row and a key of the tile last computed.
  Real product(std::int64_t row, std::int64_t column) const {
    return query_norms_[row] * key_norms_[column];
  }
  /// The largest one of the keys that the row keeps of the tiles computed so far; 0 without any.
  Real largest_product(std::int64_t row) const { return query_norms_[row] * largest_norms_[row]; }
  /// The largest derivative of a score by the scaled product in the row's tiles so far, 1 at least:
  /// an error of the product counts so often.
  Real steepest(std::int64_t row) const { return steepest_[row]; }
  /// By how much a derivative by a read changes with the scaled product.
  Real curvature(std::int64_t row, std::int64_t column) const {
    return curvatures_[row * kTile + column];
  }

 private:
  bool keep(KeyRange keys);
  void measure_keys();
  void finish(KeyRange keys, Real* scores, Real* slopes);

  const BlockContext& context_;
  const RowBlock block_;
  const std::int64_t padded_rows_;
  const std::int64_t dim_;
  const Real scale_;
  const Real softcap_;
  const Real slope_;
  KeyRange range_;
  std::int64_t tiles_;
  std::vector<Real> queries_;        // [padded rows, D]
  std::vector<Real> keys_;           // [D, tile]
  std::vector<std::uint8_t> keep_;   // [rows, tile]
  std::vector<Real> query_norms_;    // [rows], times |scale|
  std::vector<Real> key_norms_;      // [tile]
  std::vector<Real> largest_norms_;  // [rows], of kept keys
  std::vector<Real> steepest_;       // [rows]
  std::vector<Real> curvatures_;     // [rows, tile], of a site
  std::optional<PairExpression::Values> expression_, factor_, curvature_;
};

}  // namespace attnjit::reference
