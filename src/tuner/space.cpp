#include "tuner/space.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "attnjit/error.hpp"
#include "codegen/config_rules.hpp"
#include "tuner/config_zero.hpp"

namespace attnjit::tuner {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchema = 1;
constexpr int kLeastBlockQ = 64;

// The objects that `candidate` stands for: its lists crossed, the last member turning fastest.
std::vector<std::string> cross(const Json& candidate) {
  std::vector<Json> objects = {Json::object()};
  for (const auto& [name, value] : candidate.items()) {
    const Json values = value.is_array() ? value : Json::array({value});
    std::vector<Json> longer;
    for (const Json& object : objects) {
      for (const Json& each : values) {
        longer.push_back(object);
        longer.back()[name] = each;
      }
    }
    objects = std::move(longer);
  }
  std::vector<std::string> texts;
  for (const Json& object : objects) texts.push_back(object.dump());
  return texts;
}

// A block of more rows than there are, beyond the smallest that is always tried.
bool pads(const kernel::ForwardConfig& config, const problem::PlanKey& key) {
  return config.block_q > std::max(kLeastBlockQ, key.bucket_q * config.packed_heads());
}

}  // namespace

SearchSpace::SearchSpace(std::string_view json) try {
  const Json root = Json::parse(json, nullptr, true, true);
  if (root.at("schema") != kSchema) {
    throw Error(
        ErrorKind::kInvalidEnvironment,
        fmt::format("search space: schema is {}; expected {}", root["schema"].dump(), kSchema));
  }
  root.at("space").get_to(name_);
  for (const Json& item : root.at("groups")) {
    Group group;
    item.at("head_dim").at(0).get_to(group.least_head_dim);
    item.at("head_dim").at(1).get_to(group.most_head_dim);
    group.max_rows = item.value("max_rows", group.max_rows);
    for (const Json& candidate : item.at("candidates")) {
      std::ranges::move(cross(candidate), std::back_inserter(group.configs));
    }
    groups_.push_back(std::move(group));
  }
  // A misspelt member is found here and not where a problem first meets it.
  kernel::ForwardConfig scratch{};
  for (const Group& group : groups_) {
    for (const std::string& members : group.configs) codegen::update_from_json(scratch, members);
  }
} catch (const Json::exception& error) {
  throw Error(ErrorKind::kInvalidEnvironment, fmt::format("search space: {}", error.what()));
}

bool SearchSpace::Group::serves(const problem::PlanKey& key) const {
  const std::int32_t width = std::max(key.family.head_dim, key.family.head_dim_v);
  return width >= least_head_dim && width <= most_head_dim && key.bucket_q <= max_rows;
}

std::vector<kernel::ForwardConfig> SearchSpace::candidates(const problem::PlanKey& key,
                                                           const codegen::Arch& arch) const {
  const kernel::ForwardConfig zero = config_zero(key, arch);
  std::vector<kernel::ForwardConfig> list = {zero};
  std::set<std::string> seen = {codegen::to_json(zero)};
  for (const Group& group : groups_) {
    if (!group.serves(key)) continue;
    for (const std::string& members : group.configs) {
      kernel::ForwardConfig config = zero;
      codegen::update_from_json(config, members);
      if (codegen::why_unfit(config, key.family, arch) || pads(config, key)) continue;
      if (seen.insert(codegen::to_json(config)).second) list.push_back(config);
    }
  }
  return list;
}

}  // namespace attnjit::tuner
