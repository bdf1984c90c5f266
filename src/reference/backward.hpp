#pragma once
#include <vector>

#include "attnjit/backward.hpp"
#include "reference/forward.hpp"
#include "reference/planes.hpp"

namespace attnjit::reference {

/// The share of Gradient::terms that the accuracy rule allows: 16 roundoffs of fp32.
inline constexpr double kTermTolerance = 0x1p-20;
/// The accuracy rule lets ds be off by this many times the change of delta that comes from rounding
/// `out`: an out that is a roundoff away may change it in another direction.
inline constexpr double kDeltaErrors = 4;
/// The smallest normal fp32 number. Kernels may have 0 in place of anything below.
inline constexpr double kSmallestNormal = 0x1p-126;

/// One gradient, dense over the shape of its tensor; NaN where nothing was computed.
struct Gradient {
  std::vector<double> values;

  /// The t of the accuracy rule, per row. ds is a difference of terms of size p |dout| |v|, and off
  /// by p |dout * e| where rounding changes out by e; this is the root of the sum of the squares of
  /// the former and of kDeltaErrors / kTermTolerance times the latter, each times |scale k| for dq
  /// and |scale q| for dk. Slopes of a softcap add |ds| times slope times 2 kScoreTolerance /
  /// kTermTolerance |scale| |q| |k| / softcap for dq and dk. For a dbias that is broadcast over
  /// keys the terms are those of its sum, dlse. What a p, or for dq and dk a p times the slope of a
  /// softcap, below kSmallestNormal contributes is divided by kTermTolerance, for all of it may be
  /// missing. p itself is off by what fp32 leaves of its score and lse, GradientTiles::lost(); dv,
  /// where nothing cancels, has no other terms.
  std::vector<double> terms;

  /// Of an exact dv: the sum of p |dout|, element by element, and 1 / (4 u) times what p may be off
  /// by, all of it below kSmallestNormal. Empty otherwise.
  std::vector<double> sizes;
};

struct BackwardResult {
  Gradient dq;     ///< [B, Hq, Lq, D]
  Gradient dk;     ///< [B, Hkv, Lk, D]
  Gradient dv;     ///< [B, Hkv, Lk, Dv]
  Gradient dbias;  ///< the shape of args.dbias; empty without one
  Gradient dsink;  ///< [1, Hq, 1, 1]; empty without args.dsink
  /// Of args.operand_gradients, each as its operand; empty where it is not wanted, and NaN unless
  /// all planes are computed.
  std::vector<Gradient> operands;
};

/// Gradients on the CPU, by the formulas of docs/reference/semantics.md. Every pointer of `args` is
/// a host pointer. out and lse are computed anew in the same arithmetic, so theirs are not read,
/// and dq, dk, dv and dbias are read for their shapes and dtypes only.
///
/// Arithmetic::kRounded also rounds p, ds and the results to q's dtype (dbias to its own); p in
/// fp16 as a multiple of 2^-14, so that small ones keep their digits. A dbias that is broadcast
/// over keys is the sum of dlse in both, less what a sink takes, which the sum of ds amounts to.
///
/// Computes the planes selected, and of dbias the rows to which selected planes alone add. Runs on
/// `jobs` threads; the result does not depend on their number.
/// Throws Error(kInvalidProblem) when shapes disagree or a diagonal is missing.
BackwardResult backward(const BackwardArgs& args, Arithmetic arithmetic, const Planes& planes,
                        unsigned jobs);

}  // namespace attnjit::reference
