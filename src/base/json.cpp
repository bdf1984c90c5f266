#include "base/json.hpp"

#include <fmt/format.h>

#include <functional>
#include <set>
#include <vector>

#include "attnjit/error.hpp"
#include "base/printable.hpp"

namespace attnjit::base {
namespace {

constexpr std::size_t kMaxParserMessage = 300;  // it repeats the text that it stumbled over

/// The rules that the parser has none for. It calls this at every bracket and at every name.
class Rules {
 public:
  bool operator()(int depth, Json::parse_event_t event, Json& value) {
    using Event = Json::parse_event_t;
    if (event == Event::key) expect_new(value.get_ref<const std::string&>());
    if (event == Event::object_start || event == Event::array_start) open(depth);
    if (event == Event::object_end || event == Event::array_end) names_.pop_back();
    return true;
  }

 private:
  // `depth` is the number of brackets around this one.
  void open(int depth) {
    if (depth >= kMaxJsonDepth) {
      throw Error(
          ErrorKind::kInvalidEnvironment,
          fmt::format("JSON with more than {} levels of brackets; expected fewer", kMaxJsonDepth));
    }
    names_.emplace_back();
  }

  void expect_new(const std::string& name) {
    if (names_.back().insert(name).second) return;
    throw Error(
        ErrorKind::kInvalidEnvironment,
        fmt::format("JSON with two members \"{}\" in one object; expected one", excerpt(name)));
  }

  std::vector<std::set<std::string>> names_;  // of the members so far, by bracket
};

// The parser's message without "[json.exception.parse_error.101] " before it.
std::string_view without_code(std::string_view message) {
  constexpr std::string_view kEnd = "] ";
  const std::size_t end = message.find(kEnd);
  return message.starts_with('[') && end != message.npos ? message.substr(end + kEnd.size())
                                                         : message;
}

}  // namespace

Json parse_json(std::string_view text, JsonComments comments) try {
  Rules rules;
  return Json::parse(text, std::ref(rules), true, comments == JsonComments::kAllowed);
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
