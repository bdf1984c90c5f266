#pragma once
#include <cstdint>

#include "reference/problem_spec.hpp"

namespace attnjit::gpu_test {

/// Problem number `index` of an endless sequence that mixes everything semantics.md allows: dtypes,
/// head ratios, head dims, lengths around tile edges, all broadcast patterns of mask and bias,
/// bands, seqlens, scales, layouts and alignments. Small enough for a full fp64 reference.
reference::ProblemSpec random_problem(std::uint64_t index);

}  // namespace attnjit::gpu_test
