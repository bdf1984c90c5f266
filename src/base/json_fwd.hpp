#pragma once
#include <nlohmann/json_fwd.hpp>

namespace attnjit::base {

/// JSON whose objects keep the order of their members. Headers that only name it include this file:
/// the whole of base/json.hpp takes a compiler four seconds.
using Json = nlohmann::ordered_json;

}  // namespace attnjit::base
