#pragma once
#include <vector>

#include "problem/plan_key.hpp"

namespace attnjit::tuner {

/// The buckets whose configuration may stand in for that of `key`: up to one step away on each
/// axis, closest first, the one with less work before the other. A single query or key is a case of
/// its own and has no neighbour on its axis.
template <class PlanKey>
std::vector<PlanKey> neighbours(const PlanKey& key);

}  // namespace attnjit::tuner
