#include "base/json.hpp"

#include <fmt/format.h>

#include "attnjit/error.hpp"
#include "base/printable.hpp"

namespace attnjit::base {
namespace {

constexpr std::size_t kMaxParserMessage = 300;  // it repeats the text that it stumbled over

// Called by the parser at every bracket; `depth` is the number of those around this one.
bool bound_depth(int depth, Json::parse_event_t event, Json&) {
  const bool opens =
      event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
  if (opens && depth >= kMaxJsonDepth) {
    throw Error(
        ErrorKind::kInvalidEnvironment,
        fmt::format("JSON with more than {} levels of brackets; expected fewer", kMaxJsonDepth));
  }
  return true;
}

// The parser's message without "[json.exception.parse_error.101] " before it.
std::string_view without_code(std::string_view message) {
  constexpr std::string_view kEnd = "] ";
  const std::size_t end = message.find(kEnd);
  return message.starts_with('[') && end != message.npos ? message.substr(end + kEnd.size())
                                                         : message;
}

}  // namespace

Json parse_json(std::string_view text, JsonComments comments) try {
  return Json::parse(text, bound_depth, true, comments == JsonComments::kAllowed);
} catch (const Json::exception& error) {
  throw Error(ErrorKind::kInvalidEnvironment,
              excerpt(without_code(error.what()), kMaxParserMessage));
}

Json try_parse_json(std::string_view text, JsonComments comments) try {
  return parse_json(text, comments);
} catch (const Error&) {
  return Json(Json::value_t::discarded);
}

std::string dump_json(const Json& json, int indentation) {
  return json.dump(indentation, ' ', false, Json::error_handler_t::replace);
}

std::string show_json(const Json& json) { return excerpt(dump_json(json)); }

}  // namespace attnjit::base
