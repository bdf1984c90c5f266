#pragma once
#include <fmt/format.h>

#include <string>
#include <vector>

#include "check/verdict.hpp"
#include "instance/problem_spec.hpp"

namespace attnjit::test {

/// The named problems of docs/reference/semantics.md ("Rounding") in one dtype and width: normal data, peaky
/// scores, and rows that one key dominates. `heads` heads of 1024 rows: 10^5 elements or more in
/// each tensor, `heads` * head_dim being 128 or more.
inline std::vector<instance::ProblemSpec> rounding_problems(DType dtype, std::int64_t head_dim,
                                                            std::int64_t heads, bool causal) {
  instance::ProblemSpec normal{.dtype = dtype,
                               .heads_q = heads,
                               .heads_kv = heads,
                               .seqlen_q = 1024,
                               .seqlen_kv = 1024,
                               .head_dim = head_dim};
  normal.causal = causal;
  if (causal) normal.diagonal = Diagonal::kTopLeft;
  instance::ProblemSpec peaky = normal, dominated = normal;
  peaky.query_stddev = 3;
  dominated.dominant_key = true;
  return {normal, peaky, dominated};
}

/// The RMS errors of `verdict`, of a problem as above, that are beyond their bounds, a line each.
inline std::string beyond_bounds(const instance::ProblemSpec& spec, const check::Verdict& verdict) {
  const double bound = spec.dominant_key ? 1.02 : 1.15;
  if (verdict.out.rms_ratio <= bound) return verdict.text;
  return verdict.text + fmt::format(
                            "out: RMS error {:.3f} times that of the rounded formulas; "
                            "at most {}\n",
                            verdict.out.rms_ratio, bound);
}
inline std::string beyond_bounds(const instance::ProblemSpec& spec,
                                 const check::BackwardVerdict& verdict) {
  std::string text = verdict.text;
  const auto judge = [&](const char* name, const reference::Report& report, double bound) {
    if (report.rms_ratio <= bound) return;
    text += fmt::format("{}: RMS error {:.3f} times that of the rounded formulas; at most {}\n",
                        name, report.rms_ratio, bound);
  };
  const double scores = spec.head_dim <= 64 ? 1.10 : 1.15;
  judge("dq", verdict.dq, scores);
  // The dk of a dominant key is nearly all of the error, and a sum of rounding errors of out.
  const bool few = spec.dominant_key && spec.dtype == DType::kFloat16;
  judge("dk", verdict.dk, few ? 1.25 : scores);
  judge("dv", verdict.dv, 1.05);
  return text;
}

}  // namespace attnjit::test
