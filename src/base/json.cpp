#include "base/json.hpp"

namespace attnjit::base {

Json parse_json(std::string_view text, JsonComments comments) {
  return Json::parse(text, nullptr, true, comments == JsonComments::kAllowed);
}

Json try_parse_json(std::string_view text, JsonComments comments) {
  return Json::parse(text, nullptr, false, comments == JsonComments::kAllowed);
}

std::string dump_json(const Json& json, int indentation) {
  return json.dump(indentation, ' ', false, Json::error_handler_t::replace);
}

}  // namespace attnjit::base
