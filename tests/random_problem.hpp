#pragma once
#include <cstdint>

#include "instance/problem_spec.hpp"

namespace attnjit::test {

/// Problem number `index` of an endless sequence that mixes everything semantics.md allows: dtypes,
/// head ratios, head dims, lengths around tile edges, all broadcast patterns of mask and bias,
/// batch groups, bands, seqlens, scales, layouts and alignments. Small enough for a full fp64
/// reference.
instance::ProblemSpec random_problem(std::uint64_t index);

/// The same on sizes that the CPU executor runs in a moment: head dims 40, 64 and 128, and no more
/// than about 200 queries and keys.
instance::ProblemSpec small_problem(std::uint64_t index);

/// The gradients of random_problem(index) or small_problem(index): with and without dbias, dlse, an
/// expanded dout.
instance::ProblemSpec random_backward_problem(std::uint64_t index);
instance::ProblemSpec small_backward_problem(std::uint64_t index);

}  // namespace attnjit::test
