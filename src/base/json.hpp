#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace attnjit::base {

/// JSON whose objects keep the order of their members.
using Json = nlohmann::ordered_json;

enum class JsonComments { kRefused, kAllowed };

/// The value that `text` spells. Throws Json::parse_error.
Json parse_json(std::string_view text, JsonComments comments = JsonComments::kRefused);

/// The same; is_discarded() of the result tells of a fault.
Json try_parse_json(std::string_view text, JsonComments comments = JsonComments::kRefused);

/// `json` as text, on one line unless there is an indentation. Bytes that are no UTF-8, which names
/// and logs may hold, are replaced.
std::string dump_json(const Json& json, int indentation = -1);

}  // namespace attnjit::base
