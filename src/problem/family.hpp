#pragma once
#include <cstdint>
#include <string>

#include "problem/problem.hpp"

namespace attnjit::problem {

/// What of a problem a kernel is specialised for. Lengths, batch, head counts, strides, window
/// widths and the scale's value are run-time arguments and not here.
struct Family {
  DType dtype = DType::kBFloat16;
  std::int32_t head_dim = 0, head_dim_v = 0, gqa_ratio = 1;
  bool aligned = false;
  bool positive_scale = true;  ///< and small enough to be folded into the exponent
  Extent mask = Extent::kAbsent;
  bool mask_vectorized = false;
  bool mask_per_query_head = false;  ///< a mask over keys that differs between heads of a kv head
  Extent bias = Extent::kAbsent;
  DType bias_dtype = DType::kBFloat16;
  bool bias_vectorized = false;
  bool bounded_left = false, bounded_right = false;
  bool seqlens = false;

  auto operator<=>(const Family&) const = default;
};

Family family(const Problem& problem);

/// The length class a configuration is chosen for: 1, 16, 64, 128, 256, ... 16384, 32768 (and
/// beyond), the smallest that holds `length`.
std::int32_t length_bucket(std::int32_t length);

/// What a plan is looked up by: problems with equal keys run the same kernels.
struct PlanKey {
  Family family;
  std::int32_t bucket_q = 1, bucket_kv = 1;

  auto operator<=>(const PlanKey&) const = default;
};

PlanKey plan_key(const Problem& problem);

/// One line, e.g. "bf16 d128 gqa4 right mask=1k".
std::string describe(const Family& family);

}  // namespace attnjit::problem
