#pragma once
#include <cstdint>

#include "reference/problem_spec.hpp"

namespace attnjit::test {

/// Problem number `index` of an endless sequence that mixes everything semantics.md allows: dtypes,
/// head ratios, head dims, lengths around tile edges, all broadcast patterns of mask and bias,
/// bands, seqlens, scales, layouts and alignments. Small enough for a full fp64 reference.
reference::ProblemSpec random_problem(std::uint64_t index);

/// The same on sizes that the CPU executor runs in a moment: head dims 40, 64 and 128, and no more
/// than about 200 queries and keys.
reference::ProblemSpec small_problem(std::uint64_t index);

/// The gradients of random_problem(index) or small_problem(index): with and without dbias, dlse, an
/// expanded dout.
reference::ProblemSpec random_backward_problem(std::uint64_t index);
reference::ProblemSpec small_backward_problem(std::uint64_t index);

}  // namespace attnjit::test
