#pragma once
#include <cstddef>
#include <vector>

#include "base/json_fwd.hpp"

namespace attnjit::tuner {

/// Of one list of candidates; a typo must not fill the memory.
inline constexpr std::size_t kMaxCrossed = 10'000;

/// The values that `value` stands for: a list for each of its own, an object for its members
/// crossed, the last one turning fastest. Throws Error(kInvalidEnvironment) where they are more
/// than kMaxCrossed.
std::vector<base::Json> cross_lists(const base::Json& value);

}  // namespace attnjit::tuner
