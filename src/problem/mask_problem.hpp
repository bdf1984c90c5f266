#pragma once
#include <string>

#include "problem/manifest_line.hpp"

namespace attnjit::problem {

/// The properties of a mask that the kernel which prepares it is specialised for.
struct MaskKey {
  bool per_pair = false;    ///< it varies over queries as well as keys
  bool vectorized = false;  ///< rows are contiguous, 16-byte aligned and so are all strides
  bool by_keys = false;     ///< bits are wanted by keys too

  auto operator<=>(const MaskKey&) const = default;
};

constexpr auto fields(const MaskKey*) {
  using K = MaskKey;
  return base::fields_of<K>(base::Field{"per_pair", &K::per_pair},
                            base::Field{"vectorized", &K::vectorized},
                            base::Field{"by_keys", &K::by_keys});
}

/// A validated mask to be prepared: everything but the addresses.
struct MaskProblem {
  MaskKey key;
  Operand mask;
  PreparedMask result;  ///< what it will be, but for the address

  bool empty() const { return mask.extent == Extent::kAbsent; }
};

/// Checks shape and strides of the mask, and looks at no address but for its alignment. Throws
/// Error(kInvalidProblem) that names what is wrong.
MaskProblem make_problem(const PrepareMaskArgs& args);

/// The result of preparing `args`. Throws Error(kInvalidProblem) for addresses that cannot be.
PreparedMask result_of(const MaskProblem& problem, const PrepareMaskArgs& args);

inline MaskKey plan_key(const MaskProblem& problem) { return problem.key; }

/// One line that says everything about the problem except its strides.
std::string describe(const MaskProblem& problem);

/// Words for messages; a manifest has no line for a mask alone.
inline ProblemText problem_text(const MaskProblem& problem) {
  return {describe(problem), "", "\"prepared_mask\": true"};
}

}  // namespace attnjit::problem
