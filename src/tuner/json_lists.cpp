#include "tuner/json_lists.hpp"

#include <algorithm>
#include <iterator>

namespace attnjit::tuner {

using base::Json;

std::vector<Json> cross_lists(const Json& value) {
  if (value.is_array()) {
    std::vector<Json> all;
    for (const Json& each : value) std::ranges::move(cross_lists(each), std::back_inserter(all));
    return all;
  }
  if (!value.is_object()) return {value};
  std::vector<Json> objects = {Json::object()};
  for (const auto& [name, member] : value.items()) {
    const std::vector<Json> choices = cross_lists(member);
    std::vector<Json> longer;
    for (const Json& object : objects) {
      for (const Json& choice : choices) {
        longer.push_back(object);
        longer.back()[name] = choice;
      }
    }
    objects = std::move(longer);
  }
  return objects;
}

}  // namespace attnjit::tuner
