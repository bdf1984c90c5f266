#pragma once
#include <cstdint>
#include <string>

#include "attnjit/merge_lse.hpp"
#include "problem/manifest_line.hpp"

namespace attnjit::problem {

/// The properties of a merge that its kernel is specialised for.
struct MergeKey {
  DType part_dtype = DType::kBFloat16, dtype = DType::kBFloat16;
  std::int32_t head_dim_v = 0;
  bool aligned = false;  ///< addresses and strides are multiples of 16 bytes, Dv one of 8
  bool carry = false;

  auto operator<=>(const MergeKey&) const = default;
};

constexpr auto fields(const MergeKey*) {
  using K = MergeKey;
  return base::fields_of<K>(base::Field{"part_dtype", &K::part_dtype},
                            base::Field{"dtype", &K::dtype},
                            base::Field{"head_dim_v", &K::head_dim_v},
                            base::Field{"aligned", &K::aligned}, base::Field{"carry", &K::carry});
}

/// A validated merge of partial results: everything but the addresses.
struct MergeProblem {
  MergeKey key;
  std::int32_t batch = 0, num_heads = 0, seqlen_q = 0, num_parts = 0;
  std::int64_t part_stride = 0;
  RowStrides parts, carry, out;

  std::int64_t rows() const { return std::int64_t{batch} * num_heads * seqlen_q; }
  bool empty() const { return rows() == 0; }
};

/// Checks `args` as make_problem(ForwardArgs) does. Throws Error(kInvalidProblem).
MergeProblem make_problem(const MergeLseArgs& args);

inline MergeKey plan_key(const MergeProblem& problem) { return problem.key; }

/// One line that says everything about the problem except its strides.
std::string describe(const MergeProblem& problem);

/// Words for messages; a manifest has no line for a merge alone.
inline ProblemText problem_text(const MergeProblem& problem) {
  return {describe(problem), "", "\"merges\": true"};
}

}  // namespace attnjit::problem
