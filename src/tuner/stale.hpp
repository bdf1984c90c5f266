#pragma once
#include "tuner/record.hpp"

namespace attnjit::tuner {

/// Whether `record` is of a contest that this version's configuration 0 did not begin: without a
/// gain it holds another one, with a gain that very one. Contests that went without wgmma, because
/// the compiler made it slow, began with configuration 0 of the other path.
template <class PlanKey>
bool contradicts_config_zero(const BasicRecord<PlanKey>& record);

/// Whether `record` says of itself that another version of the library measured it, or
/// contradicts_config_zero().
template <class PlanKey>
bool is_stale(const BasicRecord<PlanKey>& record);

}  // namespace attnjit::tuner
