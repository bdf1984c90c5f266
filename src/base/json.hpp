#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/json_fwd.hpp"

namespace attnjit::base {

enum class JsonComments { kRefused, kAllowed };

/// Objects and lists inside each other, at most: a value is copied and written by recursion, on the
/// stack of whichever thread has it.
inline constexpr int kMaxJsonDepth = 64;

/// The value that `text` spells. Throws Error(kInvalidEnvironment) that says where the fault is, or
/// that it nests deeper than kMaxJsonDepth or names two members of an object alike: readers would
/// differ in which of them counts.
Json parse_json(std::string_view text, JsonComments comments = JsonComments::kRefused);

/// The same; is_discarded() of the result tells of a fault.
Json try_parse_json(std::string_view text, JsonComments comments = JsonComments::kRefused);

/// `json` as text, on one line unless there is an indentation. Bytes that are no UTF-8, which names
/// and logs may hold, are replaced.
std::string dump_json(const Json& json, int indentation = -1);

/// The beginning of `json`, for a message that refuses it.
std::string show_json(const Json& json);

}  // namespace attnjit::base
