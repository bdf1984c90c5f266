#pragma once
#include <cstdint>
#include <vector>

#include "attnjit/forward.hpp"
#include "reference/planes.hpp"
#include "reference/rows.hpp"

namespace attnjit::reference {

/// The share of |scale| |q| |k| that the accuracy rule allows a score to be off by before it is
/// capped: 4 roundoffs of fp32.
inline constexpr double kScoreTolerance = 0x1p-22;

/// How the formulas are evaluated.
enum class Arithmetic {
  kExact,    ///< fp64 throughout, on the inputs as they are stored
  kRounded,  ///< fp32 scores and sums; p = exp(s - max) and the outputs rounded to q's dtype
};

/// Results for the selected rows, dense, in the order of Rows; NaN in planes not selected.
struct ForwardResult {
  std::vector<double> out;      ///< [B, Hq, rows, Dv]; of kExact NaN where nothing is promised
  std::vector<double> lse;      ///< [B, Hq, rows], natural logarithm; -inf where nothing is summed
  std::vector<double> row_max;  ///< [B, Hq, rows]: the largest score; -inf for a dead row
  std::vector<double> score_errors;  ///< [B, Hq, rows]: kScoreTolerance |scale| |q| max |k|, over
                                     ///< kept keys
  std::vector<std::uint8_t> dead;    ///< [B, Hq, rows]: 1 for a row without a live key
};

/// Attention on the CPU. Every pointer of `args` is a host pointer; `out` is read for its shape
/// only and `lse` is not used, so both may be null. A dropped key is skipped, whatever K and V hold
/// there; a kept key follows IEEE rules, NaN and infinity included.
/// Runs on `jobs` threads; the result does not depend on their number.
/// Throws Error(kInvalidProblem) when shapes disagree, a diagonal is missing, or a row is outside
/// [0, Lq).
ForwardResult forward(const ForwardArgs& args, Arithmetic arithmetic, const Rows& rows,
                      unsigned jobs, const Planes& planes = Planes::every());

}  // namespace attnjit::reference
