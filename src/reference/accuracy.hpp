#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "attnjit/tensor.hpp"
#include "reference/backward.hpp"
#include "reference/rows.hpp"

namespace attnjit::reference {

/// The rows of a (batch, head) plane that break the rule.
struct WrongRows {
  std::int64_t batch = 0, head = 0;
  std::vector<std::int64_t> rows;  ///< ascending
};

/// The verdict on one tensor. An error "ratio" is error / allowance: above 1 fails.
struct Report {
  bool pass = true;
  double worst_ratio = 0;    ///< over all planes and rows; infinity for NaN or for an error
                             ///< where none is allowed
  double max_abs_error = 0;  ///< over all judged elements
  std::int64_t planes = 0;   ///< (batch, head) planes looked at
  std::int64_t planes_failed = 0;
  std::int64_t elements_judged = 0;
  double rms_ratio = 0;  ///< RMS error over that of the rounded formulas, over all judged elements;
                         ///< infinity where these alone are exact
  std::vector<WrongRows> wrong;  ///< of every plane that failed
  std::string text;              ///< empty on success; else one line per failing plane (at most
                                 ///< 16, then a count): errors, first bad index, got and want
};

/// Judges `got`, a strided tensor in host memory, by the accuracy rule. Per (batch, head) plane:
///   max|x - ref| <= 2 max|y - ref| + 2 u max|ref|
/// and per row:
///   ||x - ref|| <= 4 ||y - ref|| + 4 u ||ref||
/// with ref = `exact`, y = `rounded`, both dense [got.shape[0], got.shape[1], rows, got.shape[3]],
/// and u the unit roundoff of got.dtype. Only elements whose ref and y are finite are judged; there
/// NaN in x fails. A dead row has ref = y = 0, so it must be exactly 0; elsewhere both bounds gain
/// 2^-126 an element, which kernels may have 0 in place of. Planes without an element to judge
/// count as not looked at.
Report check_output(const Tensor& got, const std::vector<double>& exact,
                    const std::vector<double>& rounded, const Rows& rows);

/// The same for a gradient of a call whose q has `dtype`, which sets u: p and ds are rounded to it
/// even if dbias is fp32. Both bounds gain 2^-20 of exact.terms, the plane's that of its largest
/// row: the error that fp32 leaves where the terms of ds cancel. Where there are exact.sizes, each
/// element satisfies
///   |x - ref| <= 4 (u + max over the row of |y - ref| / size) size + the dtype's smallest number.
Report check_gradient(const Tensor& got, DType dtype, const Gradient& exact,
                      const Gradient& rounded);

/// Judges `got`, a contiguous host array of shape {B, H, Lq}, against `exact` [B, H, rows]: within
/// 1e-4 * max(1, |lse|) + the row's of `score_errors`, which may be empty, and exactly -inf where
/// the reference is -inf. Rows whose reference is NaN or +inf are not judged. `name` is that of
/// `got` in the report: the largest scores of rows obey the same rule.
Report check_lse(const float* got, const std::array<std::int64_t, 3>& shape,
                 const std::vector<double>& exact, const Rows& rows, std::string_view name = "lse",
                 const std::vector<double>& score_errors = {});

/// Judges `got` [H] by that rule against the largest of `exact` [B, H, rows], the largest scores of
/// rows; `shape` is {B, H, Lq}. Where rows are a sample others may be larger, so that it is judged
/// from below alone. A head with a NaN is not judged.
Report check_max_logits(const float* got, const std::array<std::int64_t, 3>& shape,
                        const std::vector<double>& exact, const Rows& rows,
                        const std::vector<double>& score_errors = {});

}  // namespace attnjit::reference
