#include "tuner/defaults.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/fields_json.hpp"
#include "tuner/embedded_configs.hpp"
#include "tuner/json_lists.hpp"

namespace attnjit::tuner {
namespace {

using base::Json;

constexpr int kDefaultsSchema = 2;

using Condition = std::function<bool(const Traits&)>;

// A number is meant exactly or as [least, most], where null is no limit; of words there may be a
// list.
template <class T>
Condition parse_condition(T Traits::*member, const Json& json, const std::string& what) {
  if constexpr (std::same_as<T, int>) {
    const bool range = json.is_array() && json.size() == 2;
    const int least = base::from_json_value<int>(range ? json[0] : json, what);
    const bool open = range && json[1].is_null();
    const int most = open ? std::numeric_limits<int>::max()
                          : base::from_json_value<int>(range ? json[1] : json, what);
    return [=](const Traits& t) { return t.*member >= least && t.*member <= most; };
  } else {
    std::vector<T> allowed;
    for (const Json& each : json.is_array() ? json : Json::array({json})) {
      allowed.push_back(base::from_json_value<T>(each, what));
    }
    return [=](const Traits& t) { return std::ranges::find(allowed, t.*member) != allowed.end(); };
  }
}

std::vector<Condition> parse_conditions(const Json& when, const std::string& what) {
  std::vector<Condition> conditions;
  for (const auto& [key, json] : when.items()) {
    const std::size_t before = conditions.size();
    const std::string place = fmt::format("{}: when: {}", what, key);
    base::kFields<Traits>.apply([&](const auto&... field) {
      ((key == field.name ? conditions.push_back(parse_condition(field.member, json, place))
                          : void()),
       ...);
    });
    if (conditions.size() == before) {
      throw Error(ErrorKind::kInvalidEnvironment, place + " is no trait of a problem");
    }
  }
  return conditions;
}

Json parse_file(std::string_view text, std::string_view name) {
  const Json root = base::parse_json(text, base::JsonComments::kAllowed);
  if (root.at("schema") != kDefaultsSchema) {
    throw Error(ErrorKind::kInvalidEnvironment,
                fmt::format("defaults of the {}: schema is {}; expected {}", name,
                            base::show_json(root["schema"]), kDefaultsSchema));
  }
  return root;
}

}  // namespace

template <class Tile>
TileRules<Tile>::TileRules(const Json& groups, std::string_view table) : table_(table) {
  for (const Json& group : groups) {
    std::vector<base::Patch<Tile>> candidates;
    for (const Json& candidate : cross_lists(group.value("candidates", Json::array()))) {
      candidates.push_back(base::parse_patch<Tile>(candidate, fmt::format("{}: candidate", table)));
    }
    const Tile base =
        base::patched(Tile{}, base::parse_patch<Tile>(group.value("base", Json::object()),
                                                      fmt::format("{}: base", table)));
    for (const Json& rule : group.at("rules")) {
      const std::string what = fmt::format("{}: rule {}", table, rules_.size() + 1);
      Rule parsed{.when = parse_conditions(rule.value("when", Json::object()), what),
                  .use = base::patched(base, base::parse_patch<Tile>(rule.at("use"), what)),
                  .candidates = candidates};
      std::ranges::move(parse_conditions(group.value("when", Json::object()), what),
                        std::back_inserter(parsed.when));
      rules_.push_back(std::move(parsed));
    }
  }
}

template <class Tile>
auto TileRules<Tile>::find(const Traits& traits) const -> const Rule& {
  const auto found = std::ranges::find_if(rules_, [&](const Rule& rule) {
    return std::ranges::all_of(rule.when, [&](const Condition& meets) { return meets(traits); });
  });
  if (found == rules_.end()) {
    throw Error(ErrorKind::kInternal,
                fmt::format("configs/defaults has no rule of {} for {}", table_,
                            base::show_json(base::to_json_value(traits))));
  }
  return *found;
}

Defaults read_defaults(std::string_view forward_json, std::string_view backward_json) try {
  const Json forward = parse_file(forward_json, "forward");
  const Json backward = parse_file(backward_json, "backward");
  return {.forward = {forward.at("forward"), "forward"},
          .dkv = {backward.at("dkv"), "dkv"},
          .dq = {backward.at("dq"), "dq"},
          .dbias = {backward.at("dbias"), "dbias"}};
} catch (const Json::exception& error) {
  throw Error(ErrorKind::kInvalidEnvironment, fmt::format("defaults: {}", error.what()));
}

const Defaults& built_in_defaults() {
  static const Defaults defaults =
      read_defaults(embedded_forward_defaults(), embedded_backward_defaults());
  return defaults;
}

template class TileRules<codegen::ForwardTunables>;
template class TileRules<codegen::BackwardTile>;

}  // namespace attnjit::tuner
