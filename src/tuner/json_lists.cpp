#include "tuner/json_lists.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "attnjit/error.hpp"
#include "base/json.hpp"

namespace attnjit::tuner {

using base::Json;

namespace {

void expect_few(std::size_t count) {
  if (count <= kMaxCrossed) return;
  throw Error(ErrorKind::kInvalidEnvironment,
              fmt::format("the lists cross to more than {} values; shorten them", kMaxCrossed));
}

}  // namespace

std::vector<Json> cross_lists(const Json& value) {
  if (value.is_array()) {
    std::vector<Json> all;
    for (const Json& each : value) {
      std::ranges::move(cross_lists(each), std::back_inserter(all));
      expect_few(all.size());
    }
    return all;
  }
  if (!value.is_object()) return {value};
  std::vector<Json> objects = {Json::object()};
  for (const auto& [name, member] : value.items()) {
    const std::vector<Json> choices = cross_lists(member);
    expect_few(objects.size() * choices.size());
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
