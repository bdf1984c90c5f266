#include "tuner/space.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <type_traits>
#include <utility>

#include "attnjit/error.hpp"
#include "base/json.hpp"
#include "codegen/config_rules.hpp"
#include "tuner/backward_config_zero.hpp"
#include "tuner/config_zero.hpp"
#include "tuner/embedded_spaces.hpp"

namespace attnjit::tuner {
namespace {

using base::Json;

constexpr int kSpaceSchema = 1;
constexpr int kLeastBlock = 64;  // rows or keys: always tried

// The values that `value` stands for: a list for each of its own, an object for its members
// crossed, the last one turning fastest.
std::vector<Json> cross(const Json& value) {
  if (value.is_array()) {
    std::vector<Json> all;
    for (const Json& each : value) std::ranges::move(cross(each), std::back_inserter(all));
    return all;
  }
  if (!value.is_object()) return {value};
  std::vector<Json> objects = {Json::object()};
  for (const auto& [name, member] : value.items()) {
    const std::vector<Json> choices = cross(member);
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

const problem::Family& scores(const problem::PlanKey& key) { return key.family; }
const problem::Family& scores(const problem::BackwardPlanKey& key) { return key.family.scores; }

// Whether a block holds more rows or keys than there are, and more than the smallest that is always
// tried, or than that of configuration 0.
bool pads(const kernel::ForwardConfig& config, const kernel::ForwardConfig&,
          const problem::PlanKey& key) {
  return config.block_q > std::max(kLeastBlock, key.bucket_q * config.packed_heads());
}
bool pads(const codegen::BackwardTunables& tunables, const codegen::BackwardTunables& zero,
          const problem::BackwardPlanKey& key) {
  return tunables.keys.block_q > std::max({kLeastBlock, key.bucket_q, zero.keys.block_q}) ||
         tunables.keys.block_kv > std::max({kLeastBlock, key.bucket_kv, zero.keys.block_kv});
}

// What a configuration says of kernels that it does not run is as in configuration 0, so that no
// two are the same kernels.
void settle(kernel::ForwardConfig&, const kernel::ForwardConfig&) {}
void settle(codegen::BackwardTunables& tunables, const codegen::BackwardTunables& zero) {
  if (tunables.dq != codegen::DqMethod::kKernel) tunables.queries = zero.queries;
  if (tunables.dbias != codegen::DbiasMethod::kKernel) tunables.bias_tile = zero.bias_tile;
}

}  // namespace

template <class PlanKey>
BasicSearchSpace<PlanKey>::BasicSearchSpace()
    : BasicSearchSpace(std::is_same_v<PlanKey, problem::PlanKey> ? embedded_forward_space()
                                                                 : embedded_backward_space()) {}

template <class PlanKey>
BasicSearchSpace<PlanKey>::BasicSearchSpace(std::string_view json) try {
  const Json root = base::parse_json(json, base::JsonComments::kAllowed);
  if (root.at("schema") != kSpaceSchema) {
    throw Error(ErrorKind::kInvalidEnvironment,
                fmt::format("search space: schema is {}; expected {}", root["schema"].dump(),
                            kSpaceSchema));
  }
  root.at("space").get_to(name_);
  for (const Json& item : root.at("groups")) {
    Group group;
    item.at("head_dim").at(0).get_to(group.least_head_dim);
    item.at("head_dim").at(1).get_to(group.most_head_dim);
    group.max_rows = item.value("max_rows", group.max_rows);
    if (item.contains("operands")) group.operands = item["operands"].get<bool>();
    for (const Json& config : cross(item.at("candidates"))) group.configs.push_back(config.dump());
    groups_.push_back(std::move(group));
  }
  // A misspelt member is found here and not where a problem first meets it.
  Config scratch{};
  for (const Group& group : groups_) {
    for (const std::string& members : group.configs) codegen::update_from_json(scratch, members);
  }
} catch (const Json::exception& error) {
  throw Error(ErrorKind::kInvalidEnvironment, fmt::format("search space: {}", error.what()));
}

template <class PlanKey>
bool BasicSearchSpace<PlanKey>::Group::serves(const PlanKey& key) const {
  const problem::Family& f = scores(key);
  const std::int32_t width = std::max(f.head_dim, f.head_dim_v);
  const bool has_operands =
      f.mask != problem::Extent::kAbsent || f.bias != problem::Extent::kAbsent;
  return width >= least_head_dim && width <= most_head_dim && key.bucket_q <= max_rows &&
         operands.value_or(has_operands) == has_operands;
}

template <class PlanKey>
std::vector<ConfigFor<PlanKey>> BasicSearchSpace<PlanKey>::candidates(
    const PlanKey& key, const codegen::Arch& arch) const {
  const Config zero = config_zero(key, arch);
  std::vector<Config> list = {zero};
  std::set<std::string> seen = {codegen::to_json(zero)};
  for (const Group& group : groups_) {
    if (!group.serves(key)) continue;
    for (const std::string& members : group.configs) {
      Config config = zero;
      codegen::update_from_json(config, members);
      settle(config, zero);
      if (codegen::why_unfit(config, key.family, arch) || pads(config, zero, key)) continue;
      if (seen.insert(codegen::to_json(config)).second) list.push_back(config);
    }
  }
  return list;
}

template class BasicSearchSpace<problem::PlanKey>;
template class BasicSearchSpace<problem::BackwardPlanKey>;

}  // namespace attnjit::tuner
