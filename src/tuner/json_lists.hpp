#pragma once
#include <vector>

#include "base/json.hpp"

namespace attnjit::tuner {

/// The values that `value` stands for: a list for each of its own, an object for its members
/// crossed, the last one turning fastest.
std::vector<base::Json> cross_lists(const base::Json& value);

}  // namespace attnjit::tuner
