#pragma once
#include <cstdint>

#include "problem/backward_problem.hpp"

namespace attnjit::problem {

/// A number for hash tables; equal keys have equal ones. It depends on this build and must not be
/// stored.
std::uint64_t hash(const PlanKey& key);
std::uint64_t hash(const BackwardPlanKey& key);

}  // namespace attnjit::problem
