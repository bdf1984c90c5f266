#pragma once
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "attnjit/backward.hpp"
#include "reference/backward.hpp"
#include "reference/forward.hpp"
#include "reference/score_tiles.hpp"

namespace attnjit::reference {

/// Rows of a query head that are taken together.
inline constexpr std::int64_t kGradientRows = 64;

/// By what a term of weight p, or p times the slope of its score, counts in Gradient::terms:
/// kernels may have 0 in place of one below kSmallestNormal, and the accuracy rule allows all of it
/// then.
template <typename Real>
Real counted(Real weight) {
  return weight < Real{kSmallestNormal} ? Real{2 / kTermTolerance} : Real{1};
}

/// The |lse| from which on a row promises no gradients: an ulp of fp32 is 1/4 there, and what
/// several roundings leave of s - lse is an exponent.
inline constexpr double kTooLargeLse = 0x1p21;

/// The inputs that all tasks of one backward share. Rows are all rows of the problem.
struct GradientContext {
  const BackwardArgs& args;
  const BlockContext& scores;
  const ForwardResult& forward;  ///< out and lse in the arithmetic of the gradients

  /// The index of a row among all [B, Hq, Lq].
  std::int64_t row_index(std::int64_t batch, std::int64_t head, std::int64_t query) const {
    return (batch * args.forward.q.shape[1] + head) * args.forward.q.shape[2] + query;
  }
  /// The lse of a live row; NaN where that is too large, which leaves what it adds to unjudged.
  double lse(std::int64_t row) const {
    const double lse = forward.lse[row];
    return std::fabs(lse) < kTooLargeLse ? lse : std::numeric_limits<double>::quiet_NaN();
  }
};

/// p, ds and dqk of one block of rows, a tile of keys at a time. All are 0 where kept() is 0: at
/// dropped keys and in dead rows, whatever is stored there. The arrays hold the tile last computed.
template <typename Real>
class GradientTiles {
 public:
  /// With `site` slopes are the derivatives by that read.
  GradientTiles(const GradientContext& context, const RowBlock& block,
                const ScoreSite* site = nullptr);

  std::int64_t rows() const { return tiles_.rows(); }
  std::int64_t padded_rows() const { return tiles_.padded_rows(); }
  std::int64_t count() const { return tiles_.count(); }
  KeyRange keys(std::int64_t tile) const { return tiles_.keys(tile); }

  /// Returns false and computes nothing if no row keeps a key of the tile.
  bool compute(std::int64_t tile);

  // All of these are [padded rows, kTile].
  const Real* p() const { return p_.data(); }
  const Real* ds() const { return ds_.data(); }
  const Real* slopes() const {
    return slopes_.data();
  }                                                    ///< of the scores by scale q k^T, where kept
  const Real* dqk() const { return dqk_.data(); }      ///< ds times slopes: makes dq and dk
  const Real* terms() const { return terms_.data(); }  ///< of ds, times counted(p)
  const ScoreTiles<Real>& scores() const { return tiles_; }
  /// By what rounding `out` changes the delta of a row.
  Real delta_error(std::int64_t row) const { return delta_error_[row]; }
  /// The share of p that fp32 may leave it off by: what its score and lse are.
  const Real* lost() const { return lost_.data(); }
  const std::uint8_t* kept() const { return kept_.data(); }

  /// [padded rows, Dv padded to kColumnStep], 0 in dead rows.
  const Real* dout() const { return dout_.data(); }
  bool is_dead(std::int64_t row) const { return dead_[row]; }

 private:
  void load_row_state(std::int64_t row);
  void differentiate(std::int64_t row);
  void repeat(std::int64_t row, std::int64_t first_key);

  const GradientContext& context_;
  const RowBlock block_;
  ScoreTiles<Real> tiles_;
  const std::int64_t dim_v_;
  const std::int64_t padded_dim_v_;
  std::vector<Real> dout_;                         // [padded rows, padded Dv]
  std::vector<std::uint8_t> dead_;                 // [rows]
  std::vector<Real> lse_;                          // [rows]
  std::vector<Real> delta_;                        // [rows]
  std::vector<Real> dout_norm_;                    // [rows]
  std::vector<Real> delta_error_;                  // [rows], from an out that is rounded
  std::vector<Real> values_;                       // [padded Dv, tile]
  std::vector<Real> value_norm_;                   // [tile]
  std::vector<Real> scores_;                       // [padded rows, tile]
  std::vector<Real> dp_;                           // [padded rows, tile]
  std::vector<Real> slopes_;                       // [padded rows, tile]
  std::vector<Real> p_, ds_, dqk_, terms_, lost_;  // [padded rows, tile]
  std::vector<std::uint8_t> kept_;                 // [padded rows, tile]
};

}  // namespace attnjit::reference
